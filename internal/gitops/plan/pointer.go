package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901), taken apart.
type pointer []string

const maxPointer = 1024

// parsePointer reads a pointer to a field. The empty one, which is the whole
// document, is refused: ignoring everything is never meant.
func parsePointer(text string) (pointer, error) {
	if len(text) > maxPointer {
		return nil, fmt.Errorf("it has %d characters, the most is %d", len(text), maxPointer)
	}
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("it does not begin with /")
	}
	var parts pointer
	for part := range strings.SplitSeq(text[1:], "/") {
		rest := strings.ReplaceAll(strings.ReplaceAll(part, "~0", ""), "~1", "")
		if strings.Contains(rest, "~") {
			return nil, errors.New("a ~ is written ~0, and a / is written ~1")
		}
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
	}
	return parts, nil
}

// String is the pointer as it is written.
func (p pointer) String() string {
	var text strings.Builder
	for _, part := range p {
		text.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return text.String()
}

// remove removes what the pointer points to, if there is such a thing.
func (p pointer) remove(document map[string]any) { p.removeFrom(document) }

// removeFrom returns the value without what the pointer points to. Maps are
// changed in place, lists are copied.
func (p pointer) removeFrom(value any) any {
	last := len(p) == 1
	switch container := value.(type) {
	case map[string]any:
		child, ok := container[p[0]]
		switch {
		case ok && last:
			delete(container, p[0])
		case ok:
			container[p[0]] = p[1:].removeFrom(child)
		}
	case []any:
		index, ok := listIndex(p[0], len(container))
		switch {
		case ok && last:
			rest := make([]any, 0, len(container)-1)
			return append(append(rest, container[:index]...), container[index+1:]...)
		case ok:
			container[index] = p[1:].removeFrom(container[index])
		}
	}
	return value
}

func listIndex(text string, length int) (int, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	index, err := strconv.Atoi(text)
	return index, err == nil && index < length
}
