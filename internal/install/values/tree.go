package values

import (
	"slices"
	"strings"
)

// node is an element of a key's path, with what is below it.
type node struct {
	name  string
	path  string
	below []*node
	// value is set for a leaf.
	value *Value
	// alias is set for a leaf that is another spelling.
	alias bool
}

// tree returns the values as a tree, in the order of their groups' first
// appearance.
func (c Catalogue) tree(withAliases bool) *node {
	root := &node{}
	for i := range c.Values {
		root.add(c.Values[i].Key, &c.Values[i], false)
	}
	// Aliases come after all keys, so that the groups keep the order of the
	// keys.
	for i := range c.Values {
		if withAliases && c.Values[i].Alias != "" {
			root.add(c.Values[i].Alias, &c.Values[i], true)
		}
	}
	return root
}

// add adds a value at a key.
func (n *node) add(key string, value *Value, alias bool) {
	at := n
	for name := range strings.SplitSeq(key, ".") {
		next := at.child(name)
		if next == nil {
			next = &node{name: name, path: strings.TrimPrefix(at.path+"."+name, ".")}
			at.below = append(at.below, next)
		}
		at = next
	}
	at.value, at.alias = value, alias
}

// child returns the node with a name below this one, or nil.
func (n *node) child(name string) *node {
	i := slices.IndexFunc(n.below, func(each *node) bool { return each.name == name })
	if i < 0 {
		return nil
	}
	return n.below[i]
}

// Defaults returns the default values of a chart.
func (c Catalogue) Defaults() map[string]any {
	made := map[string]any{}
	for _, value := range c.Values {
		if given, there := value.initial(); there {
			set(made, value.Key, given)
		}
	}
	return made
}

// initial returns the content of values.yaml for a value, and false for one
// that is unset. A text without a default is empty and not unset.
func (v Value) initial() (any, bool) {
	if v.Default != nil {
		return v.Default, true
	}
	return "", v.Kind == Text
}

// set writes a key into nested maps, and creates the groups that are missing.
func set(into map[string]any, key string, value any) {
	names := strings.Split(key, ".")
	for _, name := range names[:len(names)-1] {
		// A value in the place of a group is replaced by the group.
		next, ok := into[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[name] = next
		}
		into = next
	}
	into[names[len(names)-1]] = value
}

// lookup finds a key in nested maps. A null counts as absent.
func lookup(from map[string]any, key string) (any, bool) {
	names := strings.Split(key, ".")
	for _, name := range names[:len(names)-1] {
		next, ok := from[name].(map[string]any)
		if !ok {
			return nil, false
		}
		from = next
	}
	found, there := from[names[len(names)-1]]
	return found, there && found != nil
}
