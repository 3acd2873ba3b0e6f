package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	yamlnode "go.yaml.in/yaml/v3"
)

// DuplicateKeyError is a key that an object has twice. Most often two objects
// became one because the line "---" between them is missing or is not one, so
// that taking the last value would lose the first object.
type DuplicateKeyError struct {
	Where string // file, or document of a file
	Line  int    // of the second one, in the file
	Key   string
}

// Error names file, line and key, and the way out.
func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("%s: line %d: the key %q is set twice: remove one, or separate two objects (in YAML by a line \"---\")", e.Where, e.Line, e.Key)
}

// checkKeys returns an error if a key at the top of a document is there twice.
// A document that is no object of Kubernetes passes; adding it fails with what
// it lacks.
func (d document) checkKeys(where string, asJSON []byte) error {
	var head map[string]json.RawMessage
	if json.Unmarshal(asJSON, &head) != nil || head["kind"] == nil && head["apiVersion"] == nil {
		return nil
	}
	var node yamlnode.Node
	if err := yamlnode.Unmarshal(d.text, &node); err != nil {
		// The two parsers differ here. Which key it is cannot be found out; an
		// object that may be two is not applied.
		return fmt.Errorf("%s cannot be read: a key is set twice, and %s", where, d.explain(err))
	}
	if len(node.Content) == 0 || node.Content[0].Kind != yamlnode.MappingNode {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content[0].Content); i += 2 {
		key := node.Content[0].Content[i]
		if seen[key.Value] {
			return &DuplicateKeyError{Where: where, Line: d.at(key.Line), Key: key.Value}
		}
		seen[key.Value] = true
	}
	return nil
}

// CheckJSONKeys returns an error if a key at the top of a JSON text is there
// twice. Go's parser takes the last one without a word.
func CheckJSONKeys(where string, text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil // not an object, which is reported by those who add it
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil
		}
		key, _ := token.(string)
		if seen[key] {
			line := bytes.Count(text[:decoder.InputOffset()], []byte("\n")) + 1
			return &DuplicateKeyError{Where: where, Line: line, Key: key}
		}
		seen[key] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil
		}
	}
	return nil
}
