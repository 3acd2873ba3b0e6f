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
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cache"
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
	compile func() (*compiledRule, error)
}

// compiledRule is a script that can run.
type compiledRule struct {
	*script.Script
	// timed: it reads the clock, so that its result is not kept.
	timed bool
}

// upstreamResults are the results of scripts. An object is judged once for each of
// its versions, as with the scripts of settings; UIDs differ between clusters.
var upstreamResults = cache.NewLRU[upstreamVersion, judgement](cache.Limits{Bytes: maxResults})

// upstreamVersion is one version of an object as one version of the API has it.
type upstreamVersion struct {
	version
	apiVersion string
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
		rule := &upstreamRule{pattern: strings.ReplaceAll(folder, "_", "*"), compile: sync.OnceValues(func() (*compiledRule, error) {
			source, err := fs.ReadFile(resource_customizations.Embedded, file)
			if err != nil {
				return nil, err
			}
			compiled, err := script.Compile(folder, string(source))
			return &compiledRule{compiled, strings.Contains(string(source), "os.")}, err
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
	at := upstreamVersion{version{types.UID(o.metadata.text("uid")), o.metadata.text("resourceVersion")}, o.kind.GroupVersion().String()}
	kept := at.uid != "" && !rule.timed
	if known, found := upstreamResults.Get(at); found && kept {
		return known.status, known.err
	}
	judged := rule.judge(o, now)
	if kept {
		upstreamResults.Add(at, judged, 1)
	}
	return judged.status, judged.err
}

// judge runs the script.
func (r *compiledRule) judge(o *object, now time.Time) (judged judgement) {
	result, err := r.Run(script.Input{Object: o.whole, Now: now})
	if err != nil {
		return judgement{err: fmt.Errorf("the health rule failed: %w", err)}
	}
	judged.status, judged.err = fromResult(result)
	return judged
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
