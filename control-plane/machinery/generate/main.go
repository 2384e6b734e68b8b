// Command generate writes what the machinery crate knows about Kubernetes' own types and checks
// itself against: the table of kinds and fields, and golden files made by the real Go code.
//
//	go run . schema  > ../src/schema/schema.txt
//	go run . functions > ../src/cel/functions.txt
//	go run . golden DIR
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: generate schema | functions | golden DIR")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "schema":
		writeSchema(os.Stdout)
	case "functions":
		writeFunctions(os.Stdout)
	case "rules":
		writeLines(os.Args[2], "expressions.jsonl", expressions("rules"))
		writeLines(os.Args[2], "rules.jsonl", ruleDefinitions("rules"))
	case "golden":
		writeGolden(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "unknown part", os.Args[1])
		os.Exit(2)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
