package health

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/script"
)

// upstreamRules are the scripts of Argo CD's module, by group and kind.
type upstreamRules struct {
	byKind map[schema.GroupKind]*upstreamRule
	// patterns are rules for all groups that end in some text, in the order in
	// which Argo CD tries them.
	patterns []*upstreamRule
}

// upstreamRule is one script. It is compiled when an object needs it: a cluster
// has few of the kinds.
type upstreamRule struct {
	// pattern matches "group/kind".
	pattern string
	compile func() (*script.Script, error)
}

// upstream reads the names of all rules, once and when the first object needs
// one.
var upstream = sync.OnceValue(func() *upstreamRules {
	rules := &upstreamRules{byKind: map[schema.GroupKind]*upstreamRule{}}
	// The pattern is valid, which is the only error.
	files, _ := fs.Glob(resource_customizations.Embedded, "*/*/health.lua")
	slices.Sort(files)
	for _, file := range files {
		folder := path.Dir(file)
		rule := &upstreamRule{pattern: strings.ReplaceAll(folder, "_", "*"), compile: sync.OnceValues(func() (*script.Script, error) {
			source, err := fs.ReadFile(resource_customizations.Embedded, file)
			if err != nil {
				return nil, err
			}
			return script.Compile(folder, string(source))
		})}
		if rule.pattern != folder {
			rules.patterns = append(rules.patterns, rule)
			continue
		}
		group, kind := path.Split(folder)
		rules.byKind[schema.GroupKind{Group: strings.TrimSuffix(group, "/"), Kind: kind}] = rule
	}
	return rules
})

// find returns the rule of a kind; nil if there is none.
func (r *upstreamRules) find(kind schema.GroupKind) *upstreamRule {
	if rule, found := r.byKind[kind]; found {
		return rule
	}
	for _, rule := range r.patterns {
		if matched, _ := path.Match(rule.pattern, kind.Group+"/"+kind.Kind); matched {
			return rule
		}
	}
	return nil
}

// of returns the health by the rule.
func (r *upstreamRule) of(o *object, now time.Time) (*Status, error) {
	rule, err := r.compile()
	if err != nil {
		return nil, err
	}
	result, err := rule.Run(script.Input{Object: o.whole, Now: now})
	if err != nil {
		return nil, fmt.Errorf("the health rule failed: %w", err)
	}
	return fromResult(result)
}

// fromResult returns the health that a script returned. A script without a
// result gives no health.
func fromResult(result any) (*Status, error) {
	switch result := result.(type) {
	case nil:
		return nil, nil
	case []any:
		if len(result) == 0 {
			return nil, nil
		}
	case map[string]any:
		found := group(result)
		if code := Code(found.text("status")); known(code) {
			return status(code, "%s", found.text("message")), nil
		}
		return nil, errors.New("the health rule returned an invalid status")
	}
	return nil, errors.New("the health rule returned no table")
}
