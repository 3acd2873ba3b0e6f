package plan

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// Selector chooses objects for a sync of some. A part that is * takes all, and
// so does a namespace that is empty.
type Selector struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
	// Exclude leaves out what it takes. Exclusions are applied last.
	Exclude bool
}

// ParseSelector reads group:kind:name or group:kind:namespace/name, with ! in
// front of what is left out, as the option --resource of argocd.
func ParseSelector(text string) (Selector, error) {
	rest, exclude := strings.CutPrefix(text, "!")
	parts := strings.SplitN(rest, ":", 3)
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return Selector{}, fmt.Errorf("%s is not group:kind:name or group:kind:namespace/name", quoted(text))
	}
	selector := Selector{Group: parts[0], Kind: parts[1], Name: parts[2], Exclude: exclude}
	if namespace, name, ok := strings.Cut(parts[2], "/"); ok {
		if name == "" || strings.Contains(name, "/") {
			return Selector{}, fmt.Errorf("%s is not group:kind:namespace/name", quoted(text))
		}
		selector.Namespace, selector.Name = namespace, name
	}
	return selector, nil
}

// String is the selector as it is parsed.
func (s Selector) String() string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + name
	}
	text := s.Group + ":" + s.Kind + ":" + name
	if s.Exclude {
		return "!" + text
	}
	return text
}

func (s Selector) takes(key tracking.Key) bool {
	fits := func(want, is string) bool { return want == "*" || want == is }
	return fits(s.Group, key.Group) && fits(s.Kind, key.Kind) && fits(s.Name, key.Name) &&
		(s.Namespace == "" || fits(s.Namespace, key.Namespace))
}

// selected reports whether a sync is for an object. With only exclusions it is
// for all others.
func selected(selection []Selector, key tracking.Key) bool {
	chosen := true
	for _, selector := range selection {
		if !selector.Exclude {
			chosen = false
		}
	}
	for _, selector := range selection {
		if !selector.Exclude && selector.takes(key) {
			chosen = true
		}
	}
	for _, selector := range selection {
		if selector.Exclude && selector.takes(key) {
			return false
		}
	}
	return chosen
}
