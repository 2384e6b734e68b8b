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
		"apply.jsonl":       applications(1, 30),
		"versions.jsonl":    versionedWrites(1, 40),
		"scale.jsonl":       scaled(),
		"admission.jsonl":   admissionExpressions("admission"),
		"expressions.jsonl": expressions("rules"),
		"rules.jsonl":       ruleDefinitions("rules"),
		"usage.jsonl":       usages(),
		"limits.jsonl":      limits(),
	} {
		check(os.WriteFile(filepath.Join(dir, name), jsonLines(lines), 0o644))
	}
}

func jsonLines(lines []any) []byte {
	var out bytes.Buffer
	for _, line := range lines {
		text, err := json.Marshal(line)
		check(err)
		out.Write(text)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
