package manifest

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Skip is the mark of a file that is not read, wherever it is in the file.
const Skip = "+argocd:skip-file-rendering"

// AddYAML adds all objects in a YAML text of several documents. Documents that
// are empty are left out. It returns how many objects there were before an
// error.
func (s *Set) AddYAML(name string, text []byte) (added int, err error) {
	before := len(s.objects)
	documents := SplitYAML(text)
	for i, document := range documents {
		where := name
		if len(documents) > 1 {
			where = fmt.Sprintf("document %d of %s", i+1, name)
		}
		if err := s.addDocument(where, document); err != nil {
			return len(s.objects) - before, err
		}
	}
	return len(s.objects) - before, nil
}

func (s *Set) addDocument(where string, document []byte) error {
	if isBlank(document) {
		return nil
	}
	if err := CheckAliases(where, document, s.limit); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		// Strict is about keys that are there twice.
		lax, laxErr := yaml.YAMLToJSON(document)
		if laxErr != nil {
			return fmt.Errorf("%s is not YAML: %s", where, plainError(laxErr))
		}
		s.Warn("%s: %s; the last one counts", where, plainError(err))
		text = lax
	}
	if text = bytes.TrimSpace(text); string(text) == "null" {
		return nil
	}
	return s.AddJSON(where, text)
}

// plainError is the text of the parser's error, on one line.
func plainError(err error) string {
	text := strings.ReplaceAll(err.Error(), "error converting YAML to JSON: ", "")
	text = strings.ReplaceAll(text, "yaml: unmarshal errors:\n", "")
	return strings.Join(strings.Fields(strings.TrimPrefix(text, "yaml: ")), " ")
}

// SplitYAML cuts a text at the lines that begin a document. What is written
// behind the mark belongs to the document.
func SplitYAML(text []byte) [][]byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var documents [][]byte
	begin := 0
	for at := 0; at < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if line := text[at:end]; isMark(line, "---") || isMark(line, "...") {
			documents = append(documents, text[begin:at])
			begin = at + 3
		}
		at = end
	}
	documents = append(documents, text[begin:])
	// What is before the first mark is most often nothing.
	if len(documents) > 1 && isBlank(documents[0]) {
		documents = documents[1:]
	}
	return documents
}

// isMark reports whether a line begins with a mark that stands for itself.
func isMark(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// isBlank reports whether a document has only comments and directives.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// LooksLikeManifest reports whether a text that cannot be read is most likely
// meant to be one. It is Argo CD's rule.
func LooksLikeManifest(text []byte) bool {
	return bytes.Contains(text, []byte("apiVersion:")) && bytes.Contains(text, []byte("kind:")) && bytes.Contains(text, []byte("metadata:"))
}
