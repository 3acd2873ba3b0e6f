package declare

import (
	"slices"
	"strings"
)

// maxNearestLength bounds the work for one suggestion. The distance takes
// quadratic time, and a longer name is not a misspelling of a known one.
const maxNearestLength = 128

// Nearest returns the known name that given is most likely a misspelling of, or
// the empty string. It ignores case and compares names with dots by their
// segments: only those that differ count, and up to a third of their letters
// may be wrong, but at least two. So a last segment that two names share does
// not make up for groups that have nothing in common. Of equal distances the
// first known name wins. If no name is near, it is the only one that given
// abbreviates, by its first letters or without some of its groups.
func Nearest(given string, known []string) string {
	if given == "" || len(given) > maxNearestLength {
		return ""
	}
	best, least := "", len(given)
	var longer []string
	for _, name := range known {
		wrong, meant := differing(strings.ToLower(given), strings.ToLower(name))
		d := distance(wrong, meant)
		switch {
		case d < least && d <= max(2, len(wrong)/3) && (wrong != "" || d == 0):
			best, least = name, d
		case strings.HasPrefix(meant, wrong):
			longer = append(longer, name)
		}
	}
	if best == "" && len(longer) == 1 {
		return longer[0]
	}
	return best
}

// differing returns two names without the first and the last segments that they
// share.
func differing(a, b string) (string, string) {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for range 2 {
		for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
			x, y = x[1:], y[1:]
		}
		slices.Reverse(x)
		slices.Reverse(y)
	}
	return strings.Join(x, "."), strings.Join(y, ".")
}

// distance returns the Levenshtein distance of two strings in bytes. One row of
// the matrix is enough, because only the distance is needed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
