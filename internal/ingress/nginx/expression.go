package nginx

import (
	"fmt"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// perlOnly are the parts of Perl's expressions that RE2 does not have, because they
// need more than linear time. The longer ones come first.
var perlOnly = []struct{ text, name string }{
	{"(?<=", "a look-behind"}, {"(?<!", "a look-behind"}, {"(?=", "a look-ahead"}, {"(?!", "a look-ahead"},
	{"(?>", "an atomic group"}, {"(?|", "a branch reset"}, {"(?R", "a recursion"}, {"(?(", "a condition"}, {"(?&", "a recursion"},
	{"*+", "a possessive quantifier"}, {"++", "a possessive quantifier"}, {"?+", "a possessive quantifier"},
	{`\K`, "a reset of the match"}, {`\G`, "an anchor at the last match"}, {`\R`, "a newline sequence"}, {`\k`, "a back-reference"}, {`\g`, "a back-reference"},
}

var backReference = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*(\\[1-9])`)

// Expression returns the expression of a path, as nginx has it.
func Expression(path string) string { return "(?i)^" + path }

// ExpressionProblem returns why an expression cannot be used, and names the part that
// RE2 does not have; empty if it can.
func ExpressionProblem(text string) string {
	if len(text) > route.MaxExpressionLength {
		return fmt.Sprintf("the expression has %d bytes: write it with at most %d", len(text), route.MaxExpressionLength)
	}
	_, err := regexp.Compile(Expression(text))
	if err == nil {
		_, err = regexp.Compile(text) // a group that ends before it starts could pass above
	}
	if err == nil {
		return ""
	}
	for _, part := range perlOnly {
		if strings.Contains(text, part.text) {
			return fmt.Sprintf("the expression has %s, %s, which RE2 does not have: write the path without it, or as several paths", part.name, part.text)
		}
	}
	if found := backReference.FindStringSubmatch(text); found != nil {
		return fmt.Sprintf("the expression has a back-reference, %s, which RE2 does not have: write the path without it, or as several paths", found[1])
	}
	return fmt.Sprintf("%.80q is not an expression that RE2 can run: %v", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}
