package manifest

import (
	"bytes"

	yamlnode "go.yaml.in/yaml/v3"

	"slipway.dev/slipway/api/refusal"
)

// CheckAliases refuses YAML whose aliases expand to more than limit bytes, or
// to themselves (a "billion laughs" document). It runs before any parser that
// expands aliases, because expansion is what exhausts memory. Text that is not
// YAML passes: the parser that reads it next returns the error.
func CheckAliases(name string, text []byte, limit int64) error {
	// Without both characters there is no alias, and no second parse.
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 {
		return nil
	}
	decoder := yamlnode.NewDecoder(bytes.NewReader(text))
	for {
		var document yamlnode.Node
		if err := decoder.Decode(&document); err != nil {
			return nil
		}
		sizer := &aliasSizer{limit: limit, sizes: map[*yamlnode.Node]int64{}}
		if sizer.size(&document) > limit {
			return refusal.New("", refusal.TooLarge, "%s has aliases that expand to more than %d bytes, or to themselves: write the values out", name, limit)
		}
	}
}

// aliasSizer computes the size of nodes with their aliases expanded. It visits
// each node once, so that its cost follows the written text and not the
// expansion.
type aliasSizer struct {
	limit int64
	sizes map[*yamlnode.Node]int64
}

// perNode is the cost of a node in addition to its text.
const perNode = 16

// size returns the expanded size of a node, or more than the limit for an
// anchor that contains itself.
func (s *aliasSizer) size(node *yamlnode.Node) int64 {
	if known, ok := s.sizes[node]; ok {
		return known
	}
	// A node that is reached again while it is open contains itself.
	s.sizes[node] = s.limit + 1
	total := int64(len(node.Value)) + perNode
	if node.Kind == yamlnode.AliasNode && node.Alias != nil {
		total += s.size(node.Alias)
	}
	for _, child := range node.Content {
		if total += s.size(child); total > s.limit {
			return s.limit + 1
		}
	}
	s.sizes[node] = total
	return total
}
