package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

func TestUsers(t *testing.T) {
	plain := func(user, password string) snapshot.SecretBody {
		return snapshot.SecretBody{Type: "kubernetes.io/basic-auth", Data: map[string][]byte{"username": []byte(user), "password": []byte(password)}}
	}
	file := func(key, lines string) snapshot.SecretBody {
		return snapshot.SecretBody{Type: "Opaque", Data: map[string][]byte{key: []byte(lines)}}
	}
	const sha = "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="
	for _, test := range []struct {
		name string
		body snapshot.SecretBody
		want string // the lines, when there is no problem
		says string
	}{
		{"users", file("users", bcryptLine), bcryptLine, ""},
		{"auth", file("auth", bcryptLine), bcryptLine, ""},
		{"several", file("users", "# people\n\n"+bcryptLine+"\r\nbob:$apr1$abcdefgh$0123456789012345678901\n"), "# people\n\n" + bcryptLine + "\r\nbob:$apr1$abcdefgh$0123456789012345678901\n", ""},
		{"both", snapshot.SecretBody{Data: map[string][]byte{"users": []byte("a"), "auth": []byte("b")}}, "", "keep one"},
		{"neither", file("passwords", bcryptLine), "", "under users"},
		{"plain in a file", file("users", "anna:secret"), "", "line 1 that is not hashed"},
		{"costly", file("users", strings.Replace(bcryptLine, "$05$", "$15$", 1)), "", "cost 14"},
		{"twice", file("users", bcryptLine+"\n"+bcryptLine), "", "line 1 and line 2"},
		{"no users", file("users", "# nobody\n"), "", "every request would be denied"},
		{"no name", file("users", ":{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="), "", "line 1"},
		{"plain as it should be", plain("anna", "secret"), sha, ""},
		{"no password", plain("anna", ""), "", "give both"},
		{"a second line", plain("anna\nroot", "secret"), "", "control character"},
		{"a colon", plain("an:na", "secret"), "", "colon"},
		{"a comment", plain("#anna", "secret"), "", "#"},
	} {
		lines, problem := users(&test.body)
		if (problem == "") != (test.says == "") || !strings.Contains(problem, test.says) || problem == "" && lines != test.want {
			t.Errorf("%s: %q %q", test.name, lines, problem)
		}
		for _, secret := range []string{"secret", "5en6G6"} {
			if strings.Contains(problem, secret) {
				t.Errorf("%s: the message shows a password: %s", test.name, problem)
			}
		}
	}
}

// FuzzUsers: what is taken here the edge takes too, so that nothing is refused
// there in silence.
func FuzzUsers(f *testing.F) {
	f.Add(bcryptLine)
	f.Add("# x\n\nbob:$apr1$abcdefgh$0123456789012345678901:more\n")
	f.Add("c:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=")
	f.Add("c:{SHA}5en6G6MezRroT3XKqkdPOmY/BfR=")
	f.Add("d:$2b$15$Nt3MVXHVzX97uPkJNkVu0uG2a9Dq1QqHjLk5Jc9E1xV4b6u0jX5QO")
	f.Add("e:plain")
	f.Fuzz(func(t *testing.T, lines string) {
		problem := checkUsers(lines)
		policies := []route.Policy{{BasicAuth: &route.BasicAuth{Users: route.NewSecret(lines)}}}
		rule := route.Rule{ID: route.ID{Name: "x"}, Policies: policies, Response: &route.Response{Status: 503}}
		_, err := filter.Compile(policies, filter.NewCounters(time.Unix(0, 0)))
		if taken := err == nil && len(rule.Validate()) == 0; problem == "" && !taken {
			t.Errorf("%q: here %q, and the edge says %v", lines, problem, err)
		}
	})
}

// FuzzMiddleware: whatever a spec has, it becomes valid policies or faults.
func FuzzMiddleware(f *testing.F) {
	for name, value := range full {
		f.Add("filters: [{" + name + ": " + value + "}]")
	}
	f.Add("filters: [{chain: {middlewares: [m, m]}}]")
	f.Fuzz(func(t *testing.T, spec string) {
		w := newWorld(t)
		value, err := parseSpec(spec)
		if err != nil {
			return
		}
		made := &snapshot.Resource{Kind: snapshot.Middleware, Namespace: "shop", Name: "m", Spec: value}
		w.snapshot.Put(made)
		policies, faults := Middleware(made, w.source)
		if len(faults) == 0 {
			valid(t, policies)
		} else if policies != nil {
			t.Errorf("policies beside faults: %v", policies)
		}
		if again, same := Middleware(made, w.source); !reflect.DeepEqual(policies, again) || !reflect.DeepEqual(faults, same) {
			t.Error("the same declaration gave something else")
		}
	})
}
