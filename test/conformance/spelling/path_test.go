package spelling

import (
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
)

// paths are the spellings of a place with which an attacker may try to get to it
// unseen. AT is where it begins: empty, or the prefix that a rule takes off.
func paths(at, place string) []string {
	tokens := []string{
		"", ".", "..", "%2e", "%2E", "%2e%2e", "%2E.", ".%2e", "/", "//", "%2f", "%2F", "%5c", "%5C", `\`, ";", ";x", "%3b", "..;", "%00", "%0", "%", "%zz", "%u002f", "%23", "%25", "%252e", "%252f", "%25%32%65", "%20", "%09", "%0a", "%0d%0a",
		"+", "~", "%7e", "%7E", "%c0%af", "%c0%ae", "%e0%80%af", "%ef%bc%8f", "?", "%3f", "&", "=", ":", "@", "%40", "*", "!", "'", "\"", "<", "|", "^", "`", "{", "x", "...", "....", "./", "../", "/.", "/..", "/./", "/../", "x/../", "x/%2e%2e/", "x%2f..%2f",
		`x\..\`, "x/..;/", "x/%2e%2e%2f", "%2e/", "%2e%2e/",
	}
	first, rest := place[:2], place[2:]
	var all []string
	for _, token := range tokens {
		for _, template := range []string{
			"/" + token + "/" + place, "/" + token + place, "/" + place + token, "/" + place + "/" + token, "/" + place + token + "/x", "/public/" + token + "/" + place, "/public/.." + token + "/" + place, "/public/.." + token + place,
			"/public" + token + "../" + place, "/" + first + token + rest, "/" + place + "/x/" + token + "/../..", "/public/" + token + "/../../" + place,
		} {
			all = append(all, at+template)
		}
	}
	for i := range place {
		all = append(all,
			at+"/"+place[:i]+fmt.Sprintf("%%%02x", place[i])+place[i+1:],
			at+"/"+place[:i]+fmt.Sprintf("%%%02X", place[i])+place[i+1:],
			at+"/"+place[:i]+strings.ToUpper(place[i:i+1])+place[i+1:],
			at+"/"+place[:i]+fmt.Sprintf("%%25%02x", place[i])+place[i+1:],
		)
	}
	return all
}

// setting is a pair of rules: one guards a place, the other is open and does
// something to the path.
type setting struct {
	name   string
	guard  route.PathMatch
	open   route.PathMatch
	policy *route.Policy
	at     string // before the place, in what clients ask for
	// behind is what must not be reached at the backend without a password.
	behind route.PathMatch
	// below is where everything that is open has to stay.
	below string
}

func settings() []setting {
	all := route.PathMatch{Type: route.PathPrefix, Value: "/"}
	prefix := func(value string) route.PathMatch { return route.PathMatch{Type: route.PathPrefix, Value: value} }
	exact := route.PathMatch{Type: route.PathExact, Value: "/admin"}
	letters := route.PathMatch{Type: route.PathCharacterPrefix, Value: "/admin"}
	expression := route.PathMatch{Type: route.PathRegexp, Value: "^/admin(/|$)"}
	return []setting{
		{name: "exact", guard: exact, open: all, behind: exact},
		{name: "prefix", guard: prefix("/admin"), open: all, behind: prefix("/admin")},
		{name: "character-prefix", guard: letters, open: all, behind: letters},
		{name: "regexp", guard: expression, open: all, behind: expression},
		{name: "strip-prefix", guard: prefix("/app/admin"), open: prefix("/app"), at: "/app", behind: prefix("/admin"),
			policy: &route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/app"}, ForwardPrefix: true}}},
		{name: "strip-letters", guard: prefix("/app/admin"), open: route.PathMatch{Type: route.PathCharacterPrefix, Value: "/app"}, at: "/app", behind: prefix("/admin"),
			policy: &route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/app"}}}},
		{name: "strip-regexp", guard: prefix("/app/admin"), open: prefix("/app"), at: "/app", behind: prefix("/admin"),
			policy: &route.Policy{StripPrefixRegexp: &route.StripPrefixRegexp{Regexps: []string{"^/app"}}}},
		{name: "add-prefix", guard: prefix("/admin"), open: all, behind: prefix("/in/admin"), below: "/in",
			policy: &route.Policy{AddPrefix: &route.AddPrefix{Prefix: "/in"}}},
		{name: "replace-path", guard: prefix("/admin"), open: all, behind: prefix("/admin"), below: "/fixed",
			policy: &route.Policy{ReplacePath: &route.ReplacePath{Path: "/fixed"}}},
		{name: "replace-regexp", guard: prefix("/app/admin"), open: prefix("/app"), at: "/app", behind: prefix("/in/admin"), below: "/in",
			policy: &route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "^/app/?(.*)$", Replacement: "/in/$1"}}},
	}
}

// rules are those of a setting, under a host of their own.
func (s setting) rules() []*route.Rule {
	mark := func(value string) route.Policy {
		return route.Policy{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Rule", Value: value}}}}
	}
	open := []route.Policy{mark("open")}
	if s.policy != nil {
		open = append(open, *s.policy)
	}
	return []*route.Rule{
		{Host: s.host(), Match: route.Match{Path: s.guard}, Priority: 1, Policies: []route.Policy{guarded(), mark("guard")}},
		{Host: s.host(), Match: route.Match{Path: s.open}, Policies: open},
	}
}

func (s setting) host() string { return s.name + ".test" }

func TestPaths(t *testing.T) {
	var rules []*route.Rule
	for _, s := range settings() {
		rules = append(rules, s.rules()...)
	}
	edge := serveTable(t, rules...)
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			c := newClient(t, edge.Address("web"))
			counts := map[string]int{}
			for _, path := range paths(s.at, "admin") {
				r := c.ask(t, "GET "+path+" HTTP/1.1", "Host: "+s.host())
				counts[s.check(t, path, r)]++
				absolute := c.ask(t, "GET http://"+s.host()+path+" HTTP/1.1", "Host: "+s.host())
				same(t, path, "absolute form", r, absolute)
				known := c.ask(t, "GET "+path+" HTTP/1.1", "Host: "+s.host(), credentials)
				s.checkKnown(t, path, r, known)
				same(t, path, "HTTP/2", r, askHTTP2(t, edge.Address("web"), s.host(), path))
			}
			t.Logf("%v", counts)
			if counts["guarded"] < 20 || counts["refused"] < 50 || counts["open"] < 20 {
				t.Errorf("too little of one kind: %v", counts)
			}
		})
	}
}

// check judges the response to a client without a password.
func (s setting) check(t *testing.T, path string, r result) string {
	t.Helper()
	switch r.status {
	case 400:
		return "refused"
	case 401:
		return "guarded"
	case 404:
		return "nowhere"
	case 200:
	default:
		t.Errorf("%q: status %d", path, r.status)
		return "wrong"
	}
	if rule := r.values("X-Rule"); len(rule) != 1 || rule[0] != "open" {
		t.Errorf("%q was let in by the rule %v", path, rule)
	}
	if err := uncanonical(r.path()); err != nil {
		t.Errorf("%q was forwarded in a spelling of its own: %v", path, err)
	}
	if reading, ok := fooled(s.behind, r.path()); ok {
		t.Errorf("%q was forwarded as %q without a password, which some read as %q", path, r.path(), reading)
	}
	if s.below != "" && r.path() != s.below && !strings.HasPrefix(r.path(), s.below+"/") {
		t.Errorf("%q left its place: it was forwarded as %q", path, r.path())
	}
	// Without a policy, what is forwarded is what was matched.
	if s.policy == nil && (!fits(s.open, r.path()) || fits(s.guard, r.path())) {
		t.Errorf("%q was forwarded as %q, which does not fit the rule", path, r.path())
	}
	if prefix := r.values("X-Forwarded-Prefix"); s.policy != nil && s.policy.StripPrefix != nil && s.policy.StripPrefix.ForwardPrefix {
		if len(prefix) != 1 || !fits(s.open, prefix[0]+r.path()) || fits(s.guard, strings.TrimSuffix(prefix[0]+r.path(), "/")) {
			t.Errorf("%q: %v and %q together are not what was matched", path, prefix, r.path())
		}
	}
	return "open"
}

// checkKnown judges the response to a client with the password: it gets to
// the same places, and to those that are guarded, and nothing else is open.
func (s setting) checkKnown(t *testing.T, path string, anonymous, known result) {
	t.Helper()
	if anonymous.status != 401 {
		same(t, path, "with a password", anonymous, known)
		return
	}
	rule := known.values("X-Rule")
	if known.status != 200 || len(rule) != 1 || rule[0] != "guard" || !fits(s.guard, known.path()) {
		t.Errorf("%q with a password: status %d, rule %v, forwarded as %q", path, known.status, rule, known.path())
	}
	if err := uncanonical(known.path()); err != nil {
		t.Errorf("%q was forwarded in a spelling of its own: %v", path, err)
	}
}

// same: two ways to ask for one thing have one result.
func same(t *testing.T, what, way string, a, b result) {
	t.Helper()
	if a.status != b.status || a.target() != b.target() {
		t.Errorf("%q: %d %q, %s: %d %q", what, a.status, a.target(), way, b.status, b.target())
	}
}

// TestQuestionMark holds the exception in readings to the truth: an escaped
// question mark stays escaped, and is not refused.
func TestQuestionMark(t *testing.T) {
	s := settings()[1]
	edge := serveTable(t, s.rules()...)
	r := newClient(t, edge.Address("web")).ask(t, "GET /admin%3fx HTTP/1.1", "Host: "+s.host())
	if r.status != 200 || r.target() != "/admin%3Fx" {
		t.Errorf("status %d, forwarded as %q: if %%3F is refused now, remove the exception in readings", r.status, r.target())
	}
}
