package strategy

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Strategy is how the newest of the allowed tags is found.
type Strategy string

// The strategies, by the names of the Image Updater.
const (
	SemVer       Strategy = "semver"
	NewestBuild  Strategy = "newest-build"
	Digest       Strategy = "digest"
	Alphabetical Strategy = "alphabetical"
)

// Parse returns the strategy of a name; an empty one is semver, and the older names
// latest and name are accepted.
func Parse(name string) (Strategy, error) {
	switch Strategy(strings.TrimSpace(name)) {
	case "", SemVer:
		return SemVer, nil
	case NewestBuild, "latest":
		return NewestBuild, nil
	case Digest:
		return Digest, nil
	case Alphabetical, "name":
		return Alphabetical, nil
	}
	return "", fmt.Errorf("%q is no update strategy: write semver, newest-build, digest or alphabetical", name)
}

// maxPatternBytes bounds a pattern of tags.
const maxPatternBytes = 1024

// Filter allows tags. The zero value allows all.
type Filter struct {
	allow   *regexp.Regexp
	ignore  []string
	nothing bool
}

// NewFilter reads the functions any and regexp:<expression>, and patterns of tags that
// are ignored. With an error the filter allows no tag: a mistake must not update to
// the wrong one.
func NewFilter(allow string, ignore []string) (Filter, error) {
	filter := Filter{}
	allow = strings.TrimSpace(allow)
	switch kind, expression, _ := strings.Cut(allow, ":"); {
	case allow == "" || allow == "any":
	case len(allow) > maxPatternBytes:
		return Filter{nothing: true}, fmt.Errorf("the expression has more than %d characters", maxPatternBytes)
	case kind == "regexp" && expression != "":
		compiled, err := regexp.Compile(expression)
		if err != nil {
			return Filter{nothing: true}, fmt.Errorf("%q is no regular expression: %w", expression, err)
		}
		filter.allow = compiled
	default:
		return Filter{nothing: true}, fmt.Errorf("%q is neither any nor regexp:<expression>", allow)
	}
	for _, pattern := range ignore {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" {
			continue
		}
		if _, err := path.Match(pattern, ""); err != nil || len(pattern) > maxPatternBytes {
			return Filter{nothing: true}, fmt.Errorf("%q is no pattern of tags, such as v1.* or latest", pattern)
		}
		filter.ignore = append(filter.ignore, pattern)
	}
	return filter, nil
}

// Allows reports whether a tag is considered.
func (f Filter) Allows(tag string) bool {
	if f.nothing || f.allow != nil && !f.allow.MatchString(tag) {
		return false
	}
	return !slices.ContainsFunc(f.ignore, func(pattern string) bool {
		matched, err := path.Match(pattern, tag)
		return matched || err != nil
	})
}

// Rule is what tags of an image are chosen by.
type Rule struct {
	Strategy Strategy
	// Constraint is that of versions, or the tag whose digest is followed.
	Constraint string
	Filter     Filter

	versions *semver.Constraints
}

// NewRule checks the constraint of a strategy.
func NewRule(of Strategy, constraint string, filter Filter) (Rule, error) {
	rule := Rule{Strategy: of, Constraint: strings.TrimSpace(constraint), Filter: filter}
	switch {
	case of == SemVer && rule.Constraint != "":
		versions, err := semver.NewConstraint(rule.Constraint)
		if err != nil {
			return Rule{}, fmt.Errorf("%q is no constraint of versions, such as ~1.2 or 1.x: %w", rule.Constraint, err)
		}
		rule.versions = versions
	case of == Digest && !IsTag(rule.Constraint):
		return Rule{}, fmt.Errorf("the strategy digest follows one tag, and %q is none: write it after the name, such as app:latest", rule.Constraint)
	}
	return rule, nil
}

// Candidates are the tags that the rule allows, those that are preferred last. For
// newest-build the dates decide, which [Newest] compares.
func (r Rule) Candidates(tags []string) []string {
	allowed := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !IsTag(tag) || !r.Filter.Allows(tag) })
	switch r.Strategy {
	case SemVer:
		return r.byVersion(allowed)
	case Digest:
		if slices.Contains(allowed, r.Constraint) {
			return []string{r.Constraint}
		}
		return nil
	}
	slices.Sort(allowed)
	return slices.Compact(allowed)
}

// byVersion sorts tags that are versions. Versions before a release need a constraint
// that allows them, such as 1.x-0. Tags of the same version are sorted by name, so that
// the choice does not depend on the order of the registry.
func (r Rule) byVersion(tags []string) []string {
	type versioned struct {
		tag     string
		version *semver.Version
	}
	var found []versioned
	for _, tag := range tags {
		version, err := semver.NewVersion(tag)
		if err != nil {
			continue
		}
		if r.versions == nil && version.Prerelease() == "" || r.versions != nil && r.versions.Check(version) {
			found = append(found, versioned{tag, version})
		}
	}
	slices.SortFunc(found, func(x, y versioned) int {
		return cmp.Or(x.version.Compare(y.version), strings.Compare(x.tag, y.tag))
	})
	sorted := make([]string, len(found))
	for i := range found {
		sorted[i] = found[i].tag
	}
	return sorted
}

// Choose is the tag to update to among candidates that are sorted, empty if there is
// none. A current tag that is the same version as the best one stays.
func (r Rule) Choose(sorted []string, current string) string {
	if len(sorted) == 0 {
		return ""
	}
	best := sorted[len(sorted)-1]
	if r.Strategy != SemVer || !slices.Contains(sorted, current) {
		return best
	}
	one, errOne := semver.NewVersion(best)
	other, errOther := semver.NewVersion(current)
	if errOne == nil && errOther == nil && one.Compare(other) == 0 {
		return current
	}
	return best
}

// Newest is the tag that was built last; of those that were built at once the last by
// name. Tags without a date are left out.
func Newest(built map[string]time.Time) string {
	best := ""
	for tag, at := range built {
		if at.IsZero() {
			continue
		}
		if best == "" || at.After(built[best]) || at.Equal(built[best]) && tag > best {
			best = tag
		}
	}
	return best
}
