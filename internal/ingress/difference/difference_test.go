package difference_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

var sources = []difference.Source{difference.NGINX, difference.Traefik, difference.Plain}

// TestDeclarations: each declaration is complete, and its name is one of its source.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	for _, source := range sources {
		seen := map[string]bool{}
		for _, d := range slices.Concat(difference.Of(source), difference.Computed()) {
			if d.ID == "" || d.About == "" || d.Before == "" || d.After == "" || d.Before == d.After || seen[d.ID] {
				t.Errorf("%s: %q is not complete, or there twice", source, d.ID)
			}
			seen[d.ID] = true
			if !slices.Contains(difference.Known(), d.ID) {
				t.Errorf("%s cannot be accepted", d.ID)
			}
		}
	}
}

// TestWriteTable: the table replaces what is between the marks, and nothing else.
func TestWriteTable(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- differences: written by make generate -->\n", "<!-- end of differences -->\n"
	page, err := difference.WriteTable([]byte("before\n"+begin+"old\n"+end+"after\n"), difference.NGINX)
	if err != nil || !strings.HasPrefix(string(page), "before\n"+begin) || !strings.HasSuffix(string(page), end+"after\n") ||
		strings.Contains(string(page), "old\n") || !strings.Contains(string(page), "`cors-options`") {
		t.Errorf("%v: %s", err, page)
	}
	for _, text := range []string{"", begin, end, end + begin} {
		if _, err := difference.WriteTable([]byte(text), difference.NGINX); err == nil {
			t.Errorf("%q has no marks", text)
		}
	}
}

// TestNotFound: objects without the condition do not have the difference.
func TestNotFound(t *testing.T) {
	t.Parallel()
	rule := func(path route.PathMatch, policies ...route.Policy) *route.Rule {
		return &route.Rule{Host: "shop.example", Match: route.Match{Path: path}, Backends: []route.BackendRef{{}}, Policies: policies}
	}
	of := func(variant string, policy route.Policy) route.Policy {
		policy.ID = route.PolicyID{Kind: "Middleware.traefik.io", Namespace: "shop", Name: "one", Variant: variant}
		return policy
	}
	settings := func(annotations ...string) *nginx.Settings {
		given := map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			given[nginx.Prefix+annotations[i]] = annotations[i+1]
		}
		parsed, _, _ := nginx.Parse(given, nil)
		return parsed
	}
	root := route.PathMatch{Type: route.PathPrefix, Value: "/"}
	expression := func(path string) route.PathMatch {
		return route.PathMatch{Type: route.PathRegexp, Value: nginx.Expression(path)}
	}
	sts := route.Policy{ResponseHeaders: &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "Strict-Transport-Security", Value: "max-age=1"}}}}
	for name, test := range map[string]struct {
		subject difference.Subject
		want    string
	}{
		"nothing":                    {difference.Subject{Source: difference.NGINX, NGINX: settings(), Rules: []*route.Rule{rule(root)}}, ""},
		"no rules":                   {difference.Subject{Source: difference.NGINX, NGINX: settings("enable-cors", "true")}, ""},
		"an origin":                  {difference.Subject{Source: difference.NGINX, NGINX: settings("enable-cors", "true", "cors-allow-origin", "https://one.example"), Rules: []*route.Rule{rule(root)}}, "cors-options"},
		"no credentials":             {difference.Subject{Source: difference.NGINX, NGINX: settings("enable-cors", "true", "cors-allow-credentials", "false"), Rules: []*route.Rule{rule(root)}}, "cors-options"},
		"a slash in the path":        {difference.Subject{Source: difference.NGINX, NGINX: settings("rewrite-target", "/$2"), Rules: []*route.Rule{rule(expression("/app(/|$)(.*)"))}}, ""},
		"no slash in the path":       {difference.Subject{Source: difference.NGINX, NGINX: settings("rewrite-target", "/$1"), Rules: []*route.Rule{rule(expression("/app(.*)"))}}, "empty-elements"},
		"a cookie of the root":       {difference.Subject{Source: difference.NGINX, NGINX: settings("affinity", "cookie"), Rules: []*route.Rule{rule(root)}}, ""},
		"a cookie with a path":       {difference.Subject{Source: difference.NGINX, NGINX: settings("affinity", "cookie", "session-cookie-path", "/x"), Rules: []*route.Rule{rule(route.PathMatch{Type: route.PathPrefix, Value: "/x"})}}, ""},
		"clients that may have none": {difference.Subject{Source: difference.NGINX, NGINX: settings("auth-tls-secret", "a/b", "auth-tls-verify-client", "optional"), Rules: []*route.Rule{rule(root)}}, ""},
		"a prefix in elements": {difference.Subject{Source: difference.Traefik, Rules: []*route.Rule{
			rule(route.PathMatch{Type: route.PathPrefix, Value: "/shop"}, of("stripPrefix", route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/shop"}}})),
		}}, ""},
		"a prefix in letters": {difference.Subject{Source: difference.Traefik, Rules: []*route.Rule{
			rule(route.PathMatch{Type: route.PathCharacterPrefix, Value: "/shop"}, of("stripPrefix", route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/shop"}}})),
		}}, "strip-prefix"},
		"an own policy":        {difference.Subject{Source: difference.Traefik, Rules: []*route.Rule{rule(root, route.Policy{Retry: &route.Retry{}})}}, ""},
		"a chain":              {difference.Subject{Source: difference.Traefik, Rules: []*route.Rule{rule(root, route.Policy{Chain: &route.Chain{Policies: []route.Policy{of("retry", route.Policy{Retry: &route.Retry{}})}}})}}, "retry"},
		"encrypted only":       {difference.Subject{Source: difference.Traefik, Rules: []*route.Rule{rule(root, of("headers", sts))}}, ""},
		"plain":                {difference.Subject{Source: difference.Traefik, Plain: true, Rules: []*route.Rule{rule(root, of("headers", sts))}}, "plain-sts"},
		"an annotation":        {difference.Subject{Source: difference.Plain, Annotations: map[string]string{"haproxy.org/timeout": "1s"}, Rules: []*route.Rule{rule(root)}}, "other-annotations"},
		"no annotation of one": {difference.Subject{Source: difference.Plain, Annotations: map[string]string{"team": "shop"}, Rules: []*route.Rule{rule(root)}}, ""},
	} {
		var got []string
		for _, found := range difference.Find(&test.subject) {
			got = append(got, found.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %q", name, got, test.want)
		}
	}
}

// TestCommand: the parts of a request are in the command.
func TestCommand(t *testing.T) {
	t.Parallel()
	for want, example := range map[string]difference.Example{
		"curl -i 'http://a.example/'":                                        {URL: "http://a.example/"},
		"curl -i -I 'http://a.example/'":                                     {URL: "http://a.example/", Method: "HEAD"},
		"curl -i -X 'PUT' -H 'A: b' 'http://a.example/'":                     {URL: "http://a.example/", Method: "PUT", Headers: []string{"A: b"}},
		"curl -i -g 'http://a.example/[1]'":                                  {URL: "http://a.example/[1]"},
		`curl -i 'http://a.example/it'\''s'`:                                 {URL: "http://a.example/it's"},
		`curl -s -o /dev/null -w '%{http_code}\n' 'http://a.example/?[1-3]'`: {URL: "http://a.example/", Times: 3},
		`curl -s -o /dev/null -w '%{http_code}\n' -g 'http://a.example/[1]'`: {URL: "http://a.example/[1]", Times: 3},
	} {
		if got := example.Command(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzQuote: a shell reads a quoted word as it was.
func FuzzQuote(f *testing.F) {
	for _, word := range []string{"", "a b", "it's", "'", "$(id)", "`id`", "a\nb", `\'`, "''\"''"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if strings.ContainsRune(word, 0) {
			t.Skip("no argument has a zero byte")
		}
		got, err := exec.Command("sh", "-c", "printf %s "+difference.Quote(word)+"x").Output()
		if err != nil || string(got) != word+"x" {
			t.Errorf("%q became %q: %v", word, got, err)
		}
	})
}

// FuzzFind: no annotation and no path makes the conditions fail, and every example has a
// URL and two responses.
func FuzzFind(f *testing.F) {
	f.Add("/app(.*)", "rewrite-target", "/$1")
	f.Add("/a b/(.*)", "use-regex", "true")
	f.Add("/\xff\\s", "enable-cors", "true")
	f.Add("", "affinity", "cookie")
	f.Fuzz(func(t *testing.T, path, name, value string) {
		annotations := map[string]string{nginx.Prefix + name: value}
		settings, _, _ := nginx.Parse(annotations, nil)
		for _, kind := range []route.PathType{route.PathRegexp, route.PathPrefix, route.PathExact} {
			match := route.PathMatch{Type: kind, Value: path}
			if kind == route.PathRegexp {
				match.Value = nginx.Expression(path)
			}
			rules := []*route.Rule{{Host: "shop.example", Match: route.Match{Path: match}, Backends: []route.BackendRef{{}}}}
			for _, source := range sources {
				for _, found := range difference.Find(&difference.Subject{Source: source, Annotations: annotations, NGINX: settings, Rules: rules}) {
					if !strings.HasPrefix(found.Example.URL, "http") || found.Example.Before == "" || found.Example.After == "" {
						t.Errorf("%s: %+v", found.ID, found.Example)
					}
				}
			}
		}
	})
}
