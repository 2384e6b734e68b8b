package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// writeGolden makes the files the crate's tests compare with. Each line is one JSON document.
func writeGolden(dir string) {
	check(os.MkdirAll(dir, 0o755))
	for name, lines := range map[string][]any{
		"objects.jsonl":     objects(),
		"strategic.jsonl":   strategicPatches(),
		"quantity.jsonl":    quantities(),
		"selector.jsonl":    selectors(),
		"name.jsonl":        names(),
		"age.jsonl":         ages(),
		"decode.jsonl":      decodings(),
		"defaults.jsonl":    defaulted(),
		"status.jsonl":      statuses(),
		"expressions.jsonl": expressions("rules"),
		"rules.jsonl":       ruleDefinitions("rules"),
	} {
		writeLines(dir, name, lines)
	}
}

func writeLines(dir, name string, lines []any) {
	var out bytes.Buffer
	for _, line := range lines {
		text, err := json.Marshal(line)
		check(err)
		out.Write(text)
		out.WriteByte('\n')
	}
	check(os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
