package route

import (
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
)

func TestResponseBody(t *testing.T) {
	for _, c := range []struct {
		name     string
		response Response
		want     refusal.Reason // empty when it is valid
	}{
		{"asked for", Response{Status: 200, Reason: ReasonConfigured, Body: "token"}, ""},
		{"as long as it may be", Response{Status: 200, Reason: ReasonConfigured, Body: strings.Repeat("x", MaxResponseBody)}, ""},
		{"too long", Response{Status: 200, Reason: ReasonConfigured, Body: strings.Repeat("x", MaxResponseBody+1)}, refusal.TooMany},
		{"in the place of a backend", Response{Status: 503, Reason: ReasonRefused, Body: "why"}, refusal.Conflict},
		{"status without a body", Response{Status: 204, Reason: ReasonConfigured, Body: "x"}, refusal.Conflict},
		{"not UTF-8", Response{Status: 200, Reason: ReasonConfigured, Body: "\xff"}, refusal.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := Rule{ID: ID{Name: "rule"}, Response: &c.response}
			problems := rule.Validate()
			switch {
			case c.want == "" && len(problems) > 0:
				t.Errorf("refused: %v", problems)
			case c.want != "" && (len(problems) != 1 || problems[0].Reason != c.want || problems[0].Field != "response.body"):
				t.Errorf("got %v, want %s of response.body", problems, c.want)
			}
		})
	}
}
