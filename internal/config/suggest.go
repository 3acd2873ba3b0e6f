package config

import "strings"

// maxSuggestLength bounds the work for one suggestion: a longer name is not a
// misspelt option.
const maxSuggestLength = 128

// nearest returns the option whose name is closest to an unknown path, with the
// path's own element in place of a free name. It reports false rather than
// suggest an unrelated option.
func (s schema) nearest(path []string) (Option, bool) {
	given := strings.ToLower(strings.Join(path, "."))
	if given == "" || len(given) > maxSuggestLength {
		return Option{}, false
	}
	best, least := Option{}, len(given)
	for _, o := range s.options {
		o = o.named(path)
		d := distance(given, strings.ToLower(o.Name))
		// A third of the misspelled part may differ, but two letters always.
		if d < least && d <= max(2, len(unmatched(o, path))/3) {
			best, least = o, d
		}
	}
	if best.Name != "" {
		return best, true
	}
	return s.sameEnding(path)
}

// unmatched returns the part of a path after the elements that it shares with
// an option: the longer the misspelled part, the more errors it may have.
func unmatched(o Option, path []string) string {
	i := 0
	for i < len(path) && i < len(o.path) && strings.EqualFold(path[i], o.path[i]) {
		i++
	}
	return strings.Join(path[i:], ".")
}

// sameEnding returns the only option whose last element is that of the path,
// for a path whose group is missing or wrong. Several candidates yield none.
func (s schema) sameEnding(path []string) (Option, bool) {
	var found []Option
	for _, o := range s.options {
		if strings.EqualFold(o.path[len(o.path)-1], path[len(path)-1]) {
			found = append(found, o.named(path))
		}
	}
	if len(found) != 1 {
		return Option{}, false
	}
	return found[0], true
}

// named puts the elements of a path in place of the free names of an option, in
// lower case. Invalid names stay nameElement, which checkNames reports.
func (o Option) named(path []string) Option {
	out := Option{}
	for i, element := range o.path {
		if element == nameElement && i < len(path) && validLabel(strings.ToLower(path[i])) {
			element = strings.ToLower(path[i])
		}
		out = out.child(element, o.fields[i])
	}
	out.Type, out.Default = o.Type, o.Default
	return out
}

// distance is the edit distance (Levenshtein) of two texts.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
		}
		previous = current
	}
	return previous[len(b)]
}
