package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// parseTOML parses a TOML file. Errors keep the line number and drop what they
// quote of the file.
func parseTOML(content []byte) ([]fileNode, error) {
	var table map[string]any
	if err := toml.Unmarshal(content, &table); err != nil {
		if syntax, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, fmt.Errorf("line %d: %s", syntax.Position.Line, withoutQuotes(syntax.Message))
		}
		return nil, errors.New(withoutQuotes(err.Error()))
	}
	return tomlTable(table, nil, tomlLines(string(content)))
}

// tomlTable converts a table. Keys are sorted, because the decoder does not
// keep the order of the file. Deeper nesting than maxDepth is an error.
func tomlTable(table map[string]any, path []string, lines map[string]int) ([]fileNode, error) {
	if len(path) > maxDepth {
		return nil, fmt.Errorf("%s… is nested too deep", strings.Join(path[:2], "."))
	}
	nodes := make([]fileNode, 0, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		below := append(append([]string(nil), path...), key)
		node, err := tomlNode(table[key], below, lines)
		if err != nil {
			return nil, err
		}
		node.key, node.line = key, lines[strings.Join(below, ".")]
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// tomlNode converts a value of any type. Dates and lists of tables are refused,
// because no option has such a value.
func tomlNode(value any, path []string, lines map[string]int) (fileNode, error) {
	switch value := value.(type) {
	case map[string]any:
		children, err := tomlTable(value, path, lines)
		// An empty table enables an optional group, like {} in YAML.
		if len(children) == 0 {
			return fileNode{shape: bare}, err
		}
		return fileNode{shape: group, children: children}, err
	case []any:
		node := fileNode{shape: list}
		for _, item := range value {
			text, ok := tomlScalar(item)
			if !ok {
				return fileNode{}, fmt.Errorf("%s: an item of the list is not a single value", strings.Join(path, "."))
			}
			node.values = append(node.values, text)
		}
		return node, nil
	}
	text, ok := tomlScalar(value)
	if !ok {
		return fileNode{}, fmt.Errorf("%s: no option takes a date or a list of tables", strings.Join(path, "."))
	}
	return fileNode{shape: single, values: []string{text}}, nil
}

// tomlScalar formats a scalar as the other sources would spell it, so that they
// share one parser. It reports false for other types.
func tomlScalar(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	}
	return "", false
}

// tomlLines finds the lines of keys and table headings by their path, because
// the decoder does not report lines. They are for messages only, so keys in
// quotes and inline tables may have none.
func tomlLines(content string) map[string]int {
	lines := map[string]int{}
	table := ""
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimSpace(line)
		// Headings of lists of tables have two brackets.
		if heading, ok := strings.CutPrefix(line, "["); ok {
			table, _, _ = strings.Cut(strings.TrimPrefix(heading, "["), "]")
			table = tomlPath(table)
			noteLine(lines, table, number)
			table += "."
			continue
		}
		if key, _, ok := strings.Cut(line, "="); ok {
			noteLine(lines, table+tomlPath(key), number)
		}
	}
	return lines
}

// tomlPath normalises a dotted key: TOML allows blanks around dots.
func tomlPath(key string) string {
	elements := strings.Split(key, ".")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	return strings.Join(elements, ".")
}

// noteLine records the first line of a path and of the tables above it.
func noteLine(lines map[string]int, path string, number int) {
	for path != "" {
		if _, seen := lines[path]; seen {
			return
		}
		lines[path] = number
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
}
