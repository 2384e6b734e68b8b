package main

func writeGolden(dir string) {}
