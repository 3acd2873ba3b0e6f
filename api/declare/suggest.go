package declare

import "strings"

// maxSuggestLength bounds the work for one suggestion. The distance takes
// quadratic time, and a longer name is not a misspelling of a known one.
const maxSuggestLength = 128

// Nearest returns the known name that given is most likely a misspelling of, or
// the empty string. It ignores case and accepts a distance of up to a third of
// the length, but at least two; of equal distances the first known name wins.
func Nearest(given string, known []string) string {
	if given == "" || len(given) > maxSuggestLength {
		return ""
	}
	lower := strings.ToLower(given)
	best, least := "", max(2, len(given)/3)+1
	for _, name := range known {
		if d := distance(lower, strings.ToLower(name)); d < least && d < len(given) {
			best, least = name, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two strings in bytes. It keeps
// two rows of the matrix.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	current := make([]int, len(b)+1)
	for i := range len(a) {
		current[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
		}
		previous, current = current, previous
	}
	return previous[len(b)]
}
