package gitprovider

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
)

// The messages in the error bodies of the providers, each as its API documents it.
func TestSaidIn(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"message":"Not Found","documentation_url":"https://docs.github.com/rest"}`, "Not Found"},
		{`{"message":"Validation Failed","errors":[{"resource":"Hook","code":"custom","message":"Hook already exists on this repository"}]}`, "Validation Failed; Hook already exists on this repository"},
		{`{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}]}`, "Validation Failed; title missing_field"},
		{`{"message":{"path":["has already been taken"],"name":["has already been taken"]}}`, "name has already been taken; path has already been taken"},
		{`{"error":"insufficient_scope","error_description":"The request requires higher privileges.","scope":"api"}`, "insufficient_scope; The request requires higher privileges."},
		{`{"type":"error","error":{"message":"Your credentials lack one or more required privilege scopes.","detail":{"granted":["team"],"required":["account"]}}}`, "Your credentials lack one or more required privilege scopes. (required: account)"},
		{`{"errors":[{"context":null,"message":"You are not permitted","exceptionName":"x"}]}`, "You are not permitted"},
		{`{"message":"a\u0000\u001b[31mb\nc"}`, "a  [31mb c"},
		{`<html>bad gateway</html>`, ""}, {``, ""}, {`[]`, ""}, {`null`, ""}, {`{"message":5}`, ""},
	} {
		if got := errorDetail([]byte(test.body)); got != test.want {
			t.Errorf("errorDetail(%s) = %q, want %q", test.body, got, test.want)
		}
	}
}

// Messages stay short and on one line for any response.
func FuzzSaidIn(f *testing.F) {
	for _, seed := range []string{`{"message":"x"}`, `{"message":{"a":["b"]}}`, `{"error":{"message":"m","detail":{"required":["r"]}}}`, `{"errors":["e",{"code":"c"}]}`, `{`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := errorDetail(body)
		if len([]rune(got)) > 302 || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("errorDetail(%q) = %q", body, got)
		}
	})
}

// The next page in a Link header (RFC 8288), as GitHub and GitLab write it.
func TestNextLink(t *testing.T) {
	for value, want := range map[string]string{
		`<https://a.example/x?page=2>; rel="next", <https://a.example/x?page=9>; rel="last"`:  "https://a.example/x?page=2",
		`<https://a.example/x?page=1>; rel="first", <https://a.example/x?page=3>; rel="next"`: "https://a.example/x?page=3",
		`<https://a.example/x?page=1>; rel="prev", <https://a.example/x?page=9>; rel="last"`:  "",
		`<https://a.example/x?page=2>; rel=next`:                                              "https://a.example/x?page=2",
		``:                                                                                    "",
	} {
		if got := nextLink(http.Header{"Link": {value}}); got != want {
			t.Errorf("nextLink(%s) = %q, want %q", value, got, want)
		}
	}
}
