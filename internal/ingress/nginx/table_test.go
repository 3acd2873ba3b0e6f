package nginx_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/must"
)

// namesOf reads a list of names, one a line.
func namesOf(t *testing.T, file string) []string {
	t.Helper()
	opened := must.Get(os.Open(file))(t)
	defer opened.Close()
	var names []string
	for scanner := bufio.NewScanner(opened); scanner.Scan(); {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names
}

// withSnippets are the defaults of an edge that allows snippets.
func withSnippets() *nginx.Settings {
	settings := nginx.Defaults()
	settings.Snippets.Allowed = true
	return settings
}

// TestComplete: the tables have each annotation and each key once.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		file     string
		settings []nginx.Setting
		exactly  bool
	}{{"testdata/annotations.txt", nginx.Annotations(), true}, {"testdata/keys.txt", nginx.ConfigKeys(), false}} {
		var have []string
		for _, setting := range c.settings {
			if slices.Contains(have, setting.Name) {
				t.Errorf("%s: %s is declared twice", c.file, setting.Name)
			}
			have = append(have, setting.Name)
		}
		want := namesOf(t, c.file)
		for _, name := range want {
			if !slices.Contains(have, name) {
				t.Errorf("%s: %s is not declared", c.file, name)
			}
		}
		if c.exactly && len(have) != len(want) {
			t.Errorf("%s: %d are declared, want %d", c.file, len(have), len(want))
		}
	}
}

// TestDeclared: a setting that is done has examples that are accepted and change nothing
// but settings, one that is refused has advice, and none is empty.
func TestDeclared(t *testing.T) {
	// Transport settings need Secrets, which tests of package backend have.
	withoutExamples := []string{"proxy-ssl-secret", "proxy-ssl-verify", "proxy-ssl-name"}
	for _, setting := range nginx.Annotations() {
		if setting.Note == "" {
			t.Errorf("%s has no note", setting.Name)
		}
		if setting.Support == nginx.Done && len(setting.Examples) == 0 && !slices.Contains(withoutExamples, setting.Name) {
			t.Errorf("%s is done and has no example", setting.Name)
		}
		for _, value := range setting.Examples {
			given := map[string]string{nginx.Prefix + setting.Name: value}
			if setting.Name == "auth-type" {
				given[nginx.Prefix+"auth-secret"] = "users"
			}
			if setting.Name == "custom-http-errors" {
				given[nginx.Prefix+"default-backend"] = "pages"
			}
			if _, faults, closed := nginx.Parse(given, withSnippets()); len(faults) > 0 || closed {
				t.Errorf("%s: %q: %v", setting.Name, value, faults)
			}
		}
		if setting.Support == nginx.Refused {
			_, faults, closed := nginx.Parse(map[string]string{nginx.Prefix + setting.Name: "something"}, nil)
			if len(faults) != 1 || !strings.Contains(faults[0].Message, setting.Note) || closed != setting.Closes {
				t.Errorf("%s is refused with %v, closed %v", setting.Name, faults, closed)
			}
			for _, off := range append(setting.Off, "") {
				if _, faults, _ := nginx.Parse(map[string]string{nginx.Prefix + setting.Name: off}, nil); len(faults) > 0 {
					t.Errorf("%s: %q leaves it off and is refused: %v", setting.Name, off, faults)
				}
			}
		}
	}
	for _, key := range nginx.ConfigKeys() {
		if key.Note == "" || key.Support == nginx.Done && len(key.Examples) == 0 {
			t.Errorf("key %s has no note or no example", key.Name)
		}
		for _, value := range key.Examples {
			if _, faults := nginx.ParseConfig(map[string]string{key.Name: value}); len(faults) > 0 {
				t.Errorf("key %s: %q: %v", key.Name, value, faults)
			}
		}
		if _, faults := nginx.ParseConfig(map[string]string{key.Name: "something"}); key.Support == nginx.Refused && len(faults) != 1 {
			t.Errorf("key %s is refused with %v", key.Name, faults)
		}
	}
}

// TestRefusedValues: values with an error are refused and close the Ingress where it must
// not be served without them.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct {
		name, value, fragment string
		closed                bool
	}{
		{"use-regex", "maybe", "neither true nor false", true},
		{"rewrite-target", "http://other.example/", "not a path", true},
		{"rewrite-target", "/$host", "cannot stand in a path", true},
		{"rewrite-target", "/$", "no group", true},
		{"rewrite-target", "/$0", "cannot stand in a path", true},
		{"app-root", "/", "to itself", true},
		{"app-root", "app", "not a path", true},
		{"server-alias", "~^a", "expression", true},
		{"proxy-body-size", "8 m", "not a size", true},
		{"proxy-body-size", "-1", "not a size", true},
		{"proxy-body-size", "9007199254740993", "not a size", true},
		{"proxy-read-timeout", "0", "fails every request", false},
		{"proxy-read-timeout", "x", "whole number", false},
		{"proxy-next-upstream", "error maybe", "none of the failures", false},
		{"proxy-next-upstream-tries", "11", "from 0 to 10", false},
		{"permanent-redirect", "/relative", "not a URL", true},
		{"permanent-redirect", "https://a.example/$remote_addr", "cannot stand in a redirect", true},
		{"permanent-redirect", "https://a.example/$", "without a name", true},
		{"permanent-redirect-code", "200", "status of a redirect", false},
		{"whitelist-source-range", "10.0.0.0/33", "neither an address", true},
		{"whitelist-source-range", " , ", "lists no address", true},
		{"limit-rps", "-1", "whole number", true},
		{"auth-type", "digest", "use basic", true},
		{"auth-type", "basic", "no auth-secret", true},
		{"auth-tls-verify-client", "yes", "optional_no_ca", true},
		{"cors-allow-origin", "example.com", "not an origin", false},
		{"backend-protocol", "FCGI", "not supported", true},
		{"load-balance", "random", "not supported", false},
		{"upstream-hash-by", "$time_local", "not supported", false},
		{"upstream-hash-by", "host", "not supported", false},
		{"upstream-vhost", "$host", "variable", true},
		{"custom-http-errors", "399", "status of an error", false},
		{"custom-http-errors", "404", "no default-backend", false},
		{"affinity", "ip", "not supported", true},
		{"session-cookie-samesite", "Some", "not possible", false},
		{"proxy-ssl-verify", "true", "neither on nor off", true},
		{"canary-by-header-pattern", "a(?!b)", "look-ahead", true},
		{"canary-weight-total", "0", "over 0", true},
		{"rewrite-targt", "/", "did you mean rewrite-target?", false},
		{"no-such-thing-at-all", "/", "remove it", false},
	} {
		_, faults, closed := nginx.Parse(map[string]string{nginx.Prefix + c.name: c.value}, nil)
		if len(faults) != 1 || !strings.Contains(faults[0].Message, c.fragment) || closed != c.closed {
			t.Errorf("%s: %q: %v, closed %v; want %q, %v", c.name, c.value, faults, closed, c.fragment, c.closed)
		}
		if len(faults) == 1 && faults[0].Field != "metadata.annotations["+nginx.Prefix+c.name+"]" {
			t.Errorf("%s: the field is %s", c.name, faults[0].Field)
		}
	}
	_, faults := nginx.ParseConfig(map[string]string{"proxy-body-sise": "1m", "main-snippet": "x", "proxy-body-size": "x", "keep-alive": "75"})
	if len(faults) != 3 {
		t.Errorf("the ConfigMap has the faults %v", faults)
	}
	if err := nginx.ConfigError(faults); err == nil || !strings.Contains(err.Error(), "main-snippet") {
		t.Errorf("the error is %v", err)
	}
	if nginx.ConfigError(nil) != nil {
		t.Error("a ConfigMap without faults has an error")
	}
}

// FuzzParse: no annotation and no key makes the parser panic, and the same input gives
// the same faults.
func FuzzParse(f *testing.F) {
	for _, setting := range nginx.Annotations() {
		f.Add(setting.Name, "")
		for _, value := range setting.Examples {
			f.Add(setting.Name, value)
		}
	}
	f.Add("rewrite-target", "/$1$2${3}")
	f.Add("permanent-redirect", "https://${host}$request_uri")
	f.Fuzz(func(t *testing.T, name, value string) {
		given := map[string]string{nginx.Prefix + name: value}
		settings, faults, _ := nginx.Parse(given, nil)
		if _, again, _ := nginx.Parse(given, nil); len(again) != len(faults) {
			t.Fatalf("%d faults, and then %d", len(faults), len(again))
		}
		for _, path := range []string{"/", "/a(/|$)(.*)", value} {
			if nginx.ExpressionProblem(path) == "" {
				settings.Rewriting(policyID, path)
			}
		}
		settings.Before(policyID)
		settings.After(policyID)
		settings.ToTLS(policyID, value)
		nginx.ParseConfig(map[string]string{name: value})
	})
}
