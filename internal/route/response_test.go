package route

import (
	"strings"
	"testing"
)

func TestResponseBody(t *testing.T) {
	for _, c := range []struct {
		name     string
		response Response
		want     Fault // empty when it is valid
	}{
		{"asked for", Response{Status: 200, Reason: ReasonConfigured, Body: "token"}, ""},
		{"as long as it may be", Response{Status: 200, Reason: ReasonConfigured, Body: strings.Repeat("x", MaxResponseBody)}, ""},
		{"too long", Response{Status: 200, Reason: ReasonConfigured, Body: strings.Repeat("x", MaxResponseBody+1)}, FaultTooMany},
		{"in the place of a backend", Response{Status: 503, Reason: ReasonRefused, Body: "why"}, FaultConflict},
		{"status without a body", Response{Status: 204, Reason: ReasonConfigured, Body: "x"}, FaultConflict},
		{"not UTF-8", Response{Status: 200, Reason: ReasonConfigured, Body: "\xff"}, FaultInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := Rule{ID: ID{Name: "rule"}, Response: &c.response}
			problems := rule.Validate()
			switch {
			case c.want == "" && len(problems) > 0:
				t.Errorf("refused: %v", problems)
			case c.want != "" && (len(problems) != 1 || problems[0].Fault != c.want || problems[0].Field != "response.body"):
				t.Errorf("got %v, want %s of response.body", problems, c.want)
			}
		})
	}
}
