package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// SkipMark is the mark of a file that is not read, wherever it is in the file.
const SkipMark = "+argocd:skip-file-rendering"

// AddYAML adds all objects in a YAML text of several documents. Documents that
// are empty are left out. It returns how many objects were added before an
// error.
func (s *Set) AddYAML(name string, text []byte) (added int, err error) {
	before := len(s.objects)
	documents, err := split(text, true)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	for i, found := range documents {
		where := name
		if len(documents) > 1 {
			where = fmt.Sprintf("document %d of %s", i+1, name)
		}
		if err := s.addDocument(where, found); err != nil {
			return len(s.objects) - before, err
		}
	}
	return len(s.objects) - before, nil
}

// AddHelm adds the objects of one entry in the output of "helm template", as
// Argo CD reads it. The entry begins at a line of the file called name. Finding
// that line is expensive, so that line is called only for an error or a
// warning.
//
// Documents end at lines "---" only. Helm and Argo CD read nothing behind a
// line "...", and neither does AddHelm; it adds a warning.
func (s *Set) AddHelm(name, text string, line func() int) error {
	documents, err := split([]byte(text), false)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, found := range documents {
		if err := s.addDocument(name, document{text: found.text, line: found.line, offset: line}); err != nil {
			return err
		}
		if rest, ok := afterEnd(found.text); ok && !isBlank(rest) {
			s.Warn("%s: what follows the line \"...\" is not read, by Helm neither: begin a document with the line \"---\"", name)
		}
	}
	return nil
}

// addDocument adds the object of one document.
func (s *Set) addDocument(where string, found document) error {
	if isBlank(found.text) {
		return nil
	}
	if err := CheckAliases(where, found.text, s.limit); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSONStrict(found.text)
	if err != nil {
		// Strict is about keys that are there twice.
		lax, laxErr := yaml.YAMLToJSON(found.text)
		if laxErr != nil {
			return fmt.Errorf("%s is not YAML: %s", where, found.explain(laxErr))
		}
		if err := found.checkKeys(where, lax); err != nil {
			return err
		}
		s.Warn("%s: %s; the last one counts", where, found.explain(err))
		text = lax
	}
	if text = bytes.TrimSpace(text); string(text) == "null" {
		return nil
	}
	return s.AddJSON(where, text)
}

// document is one document of a file.
type document struct {
	text []byte
	// line is where it begins in the text that was split, from 1.
	line int
	// offset is the line of the file at which that text begins, from 1; nil is
	// the first.
	offset func() int
}

// at is a line of the document as a line of its file.
func (d document) at(line int) int {
	line += d.line - 1
	if d.offset != nil {
		line += d.offset() - 1
	}
	return line
}

// lineInError finds the line in an error of the parser.
var lineInError = regexp.MustCompile(`\bline (\d+)`)

// explain is the text of the parser's error on one line, with the lines of the
// file.
func (d document) explain(err error) string {
	text := strings.ReplaceAll(err.Error(), "error converting YAML to JSON: ", "")
	text = strings.ReplaceAll(text, "yaml: unmarshal errors:\n", "")
	text = strings.Join(strings.Fields(strings.TrimPrefix(text, "yaml: ")), " ")
	return lineInError.ReplaceAllStringFunc(text, func(found string) string {
		line, err := strconv.Atoi(found[len("line "):])
		if err != nil {
			return found
		}
		return fmt.Sprintf("line %d", d.at(line))
	})
}

// SplitYAML cuts a text at the lines that begin or end a document. An object
// that is written behind the mark and a space belongs to the document.
func SplitYAML(text []byte) ([][]byte, error) {
	documents, err := split(text, true)
	texts := make([][]byte, 0, len(documents))
	for _, found := range documents {
		texts = append(texts, found.text)
	}
	return texts, err
}

// split cuts a text at lines "---", and with ends at lines "..." too. A mark may
// be followed by a comment, also directly, which kubectl and Argo CD allow and
// YAML does not.
//
// Text directly behind the mark is an error: to YAML it is the name of a key,
// and the document before it would silently become one with the document after
// it.
func split(text []byte, ends bool) ([]document, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var documents []document
	begin, first, line := 0, 1, 0
	for at := 0; at < len(text); {
		line++
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		switch isMark(text[at:end], ends) {
		case markJoined:
			return nil, fmt.Errorf("line %d: text follows \"---\" directly: put it on a line of its own", line)
		case mark:
			documents = append(documents, document{text: ended(text[begin:at]), line: first})
			begin, first = at+len("---"), line
			if isBlank(text[begin:end]) {
				begin, first = end, line+1
			}
		}
		at = end
	}
	documents = append(documents, document{text: ended(text[begin:]), line: first})
	// What is before the first mark is most often nothing.
	if len(documents) > 1 && isBlank(documents[0].text) {
		documents = documents[1:]
	}
	return documents, nil
}

// ended is a document whose last line ends. Without that, a block scalar in it
// would have one newline less than kubectl and Argo CD read.
func ended(text []byte) []byte {
	if len(text) == 0 || text[len(text)-1] == '\n' {
		return text
	}
	return append(text[:len(text):len(text)], '\n')
}

// What the beginning of a line is.
type lineStart int

const (
	noMark     lineStart = iota
	mark                 // of a document
	markJoined           // text follows it directly
)

// isMark finds the marks of documents.
func isMark(line []byte, ends bool) lineStart {
	rest, begins := bytes.CutPrefix(line, []byte("---"))
	if !begins {
		var ok bool
		if rest, ok = bytes.CutPrefix(line, []byte("...")); !ok || !ends {
			return noMark
		}
	}
	switch {
	case len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0:
		return mark
	case !begins:
		return noMark // a key may begin with dots
	case rest[0] == '#':
		return mark
	}
	return markJoined
}

// afterEnd is what follows a line "..." of a document.
func afterEnd(text []byte) (rest []byte, found bool) {
	for at := 0; at < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if bytes.HasPrefix(text[at:end], []byte("...")) && isMark(text[at:end], true) == mark {
			return text[end:], true
		}
		at = end
	}
	return nil, false
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
// meant to be one. It is Argo CD's rule, with the keys of JSON too, which have
// quotes.
func LooksLikeManifest(text []byte) bool {
	for _, key := range manifestKeys {
		if !key.Match(text) {
			return false
		}
	}
	return true
}

var manifestKeys = []*regexp.Regexp{
	regexp.MustCompile(`apiVersion["']?\s*:`), regexp.MustCompile(`kind["']?\s*:`), regexp.MustCompile(`metadata["']?\s*:`),
}
