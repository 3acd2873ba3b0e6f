package manifest

import (
	"bytes"

	yamlnode "go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/gitops/render/job"
)

// CheckAliases refuses YAML whose aliases expand to more than limit bytes, or
// to themselves. Text that is not YAML passes: whoever reads it will say so.
func CheckAliases(name string, text []byte, limit int64) error {
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 {
		return nil
	}
	decoder := yamlnode.NewDecoder(bytes.NewReader(text))
	for {
		var document yamlnode.Node
		if err := decoder.Decode(&document); err != nil {
			return nil
		}
		weigh := &scale{limit: limit, known: map[*yamlnode.Node]int64{}}
		if weigh.node(&document) > limit {
			return job.Refuse("%s has aliases that expand to more than %d bytes, or to themselves: write the values out", name, limit)
		}
	}
}

// scale knows how large nodes are when their aliases are expanded.
type scale struct {
	limit int64
	known map[*yamlnode.Node]int64
}

// perNode is what a node costs beside its text.
const perNode = 16

// node is the size of a node. An anchor that has itself in it is too large.
func (s *scale) node(node *yamlnode.Node) int64 {
	if size, ok := s.known[node]; ok {
		return size
	}
	s.known[node] = s.limit + 1 // as long as it is open
	size := int64(len(node.Value)) + perNode
	if node.Kind == yamlnode.AliasNode && node.Alias != nil {
		size += s.node(node.Alias)
	}
	for _, child := range node.Content {
		if size += s.node(child); size > s.limit {
			return s.limit + 1
		}
	}
	s.known[node] = size
	return size
}
