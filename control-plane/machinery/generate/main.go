// Command generate writes what the machinery crate knows about Kubernetes' own types and checks
// itself against: the table of kinds and fields, and golden files made by the real Go code.
//
//	go run . schema  > ../src/schema/schema.txt
//	go run . functions > ../src/cel/functions.txt
//	go run . golden DIR
//	go run . apply SEED SEQUENCES > FILE
//	go run . versions SEED SEQUENCES > FILE
//	go run . scale > ../testdata/scale.jsonl
//	go run . security > ../../apiserver/src/admission/pod_security/golden.jsonl
//	go run . swagger > ../../apiserver/src/http/openapi/v2/golden.jsonl
//	go run . flow > ../../apiserver/src/resources/flow_control/golden.jsonl
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: generate schema | functions | golden DIR | apply SEED SEQUENCES | versions SEED SEQUENCES | scale | security | swagger | flow")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "schema":
		writeSchema(os.Stdout)
	case "functions":
		writeFunctions(os.Stdout)
	case "golden":
		writeGolden(os.Args[2])
	case "apply", "versions":
		make := applications
		if os.Args[1] == "versions" {
			make = versionedWrites
		}
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		sequences, err := strconv.Atoi(os.Args[3])
		check(err)
		_, err = os.Stdout.Write(jsonLines(make(seed, sequences)))
		check(err)
	case "scale":
		_, err := os.Stdout.Write(jsonLines(scaled()))
		check(err)
	case "security":
		_, err := os.Stdout.Write(jsonLines(evaluatedPods()))
		check(err)
	case "swagger":
		_, err := os.Stdout.Write(jsonLines(swagger()))
		check(err)
	case "flow":
		_, err := os.Stdout.Write(jsonLines(flowControl()))
		check(err)
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
