package annotation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// HostGrant lets the Ingresses of a namespace have rules for the hosts of this one.
type HostGrant struct {
	Namespace string
	// Prefixes are the paths that it may have, as written; none means all.
	Prefixes []string
	// Field is its field, for a Refusal.
	Field string
}

// namespaceName is the form of a namespace's name.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// hostGrants returns the reader of the grants.
func hostGrants(slot func(*reading) *[]HostGrant) func(*reading, place, string) {
	return func(r *reading, at place, text string) {
		grants, err := parseHostGrants(text)
		if err != nil {
			r.fault(at, refusal.Invalid, "%v", err)
			return
		}
		for i := range grants {
			grants[i].Field = at.field()
		}
		give(r, at, slot(r), grants)
	}
}

// parseHostGrants parses grants with spaces between them: a namespace alone for
// the whole host, or namespace=/prefix,/prefix. A namespace is named once, so that a
// reader finds all of its grant in one place.
func parseHostGrants(text string) ([]HostGrant, error) {
	if len(text) > declare.MaxBytes {
		return nil, errLarge
	}
	var grants []HostGrant
	count := 0
	for _, word := range strings.Fields(text) {
		namespace, list, limited := strings.Cut(word, "=")
		switch {
		case !namespaceName.MatchString(namespace):
			return nil, fmt.Errorf("%.64q is not the name of a namespace: write grants as team-b=/shop,/api team-c", namespace)
		case slices.ContainsFunc(grants, func(g HostGrant) bool { return g.Namespace == namespace }):
			return nil, fmt.Errorf("namespace %s is named twice: list its prefixes with commas, as %s=/shop,/api", namespace, namespace)
		}
		grant := HostGrant{Namespace: namespace}
		if limited {
			grant.Prefixes = strings.Split(list, ",")
		}
		for _, prefix := range grant.Prefixes {
			if !strings.HasPrefix(prefix, "/") {
				return nil, fmt.Errorf("%.64q is not a path prefix: start it with a slash, and put commas without spaces between several", prefix)
			}
		}
		if count += 1 + len(grant.Prefixes); count > maxNames {
			return nil, fmt.Errorf("it has more than %d namespaces and prefixes: grant shorter prefixes", maxNames)
		}
		grants = append(grants, grant)
	}
	if len(grants) == 0 {
		return nil, errEmpty
	}
	return grants, nil
}
