package expand_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/sprig/v3"

	"slipway.dev/slipway/internal/gitops/appset/expand"
	"slipway.dev/slipway/internal/must"
)

func params() map[string]any {
	return map[string]any{
		"name": "web", "branch": "feature/A_b.c-a very long branch name of somebody", "number": float64(8080), "yes": true,
		"path":     map[string]any{"path": "apps/web", "basename": "web", "segments": []any{"apps", "web"}},
		"metadata": map[string]any{"labels": map[string]string{"env": "prod"}},
		"list":     []any{"a", "b", "a"}, "yaml": "a: 1\nb: [x]", "path.basename": "flat",
	}
}

func expander(t testing.TB, form expand.Form) *expand.Expander {
	t.Helper()
	return must.Get(expand.New(form))(t)
}

// TestGoTemplate has what Argo CD documents about Go templates.
func TestGoTemplate(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	for text, want := range map[string]string{
		"plain":                                           "plain",
		"{{.name}}-guestbook":                             "web-guestbook",
		"{{ .path.path }} {{.path.basename}}":             "apps/web web",
		"{{index .path.segments 0}}":                      "apps",
		`{{index .metadata.labels "env"}}`:                "prod",
		`{{index .metadata.labels "other"}}`:              "",
		"{{.missing}}":                                    "<no value>",
		`{{.name}}{{dig "nameSuffix" "" .}}`:              "web",
		"{{.number}} {{.yes}}":                            "8080 true",
		"{{.branch | normalize}}":                         "feature-a-b.c-a-very-long-branch-name-of-somebody",
		"{{ cat .branch | slugify 23 }}":                  "feature-a-b-c-a-very",
		"{{ cat .branch | slugify 23 false }}":            "feature-a-b-c-a-very-lo",
		"{{ cat .branch | slugify }}":                     "feature-a-b-c-a-very-long-branch-name-of-somebody",
		`{{slugify 5 "a-bcd-e"}} {{slugify 4 "a-bcd-e"}}`: "a-bcd a",
		`{{slugify 0 "a b"}} {{slugify -1 "a b"}} {{slugify 0 false "a b"}}`: "a-b a-b ",
		"{{ (fromYaml .yaml).a }}":                                    "1",
		`{{ index (fromYamlArray "[x, z]") 1 }}`:                      "z",
		"{{ toYaml .path.segments }}":                                 "- apps\n- web",
		"{{ toJson .list }}":                                          `["a","b","a"]`,
		"{{range .list}}{{.}};{{end}}":                                "a;b;a;",
		"{{range $i, $e := .list}}{{if eq $i 1}}{{$e}}{{end}}{{end}}": "b",
		"{{range .list}}{{if eq . `b`}}{{break}}{{end}}{{.}}{{end}}":  "a",
		`{{ join "," (uniq .list) }} {{ repeat 3 "x" }}`:              "a,b xxx",
		`{{ printf "%s-%03d" .name 7 }}`:                              "web-007",
		`{{ regexReplaceAll "[^a-z]" .branch "-" }}`:                  "feature---b-c-a-very-long-branch-name-of-somebody",
		`{{ if and .yes (hasPrefix "w" .name) }}x{{else}}y{{end}}`:    "x",
		`{{ default "d" .missing }}`:                                  "d",
	} {
		got, err := e.Text(t.Context(), text, params())
		if err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
}

// TestDefine: a text defines templates for itself, as in Argo CD.
func TestDefine(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	deep := `{{define "down"}}{{if gt . 0}}{{.}};{{template "down" (sub . 1)}}{{end}}{{end}}`
	for text, want := range map[string]string{
		`{{define "x"}}y{{end}}{{template "x"}}`:                                                                                   "y",
		`{{template "x" .}}{{define "x"}}<{{.name}}>{{end}}`:                                                                       "<web>",
		`{{define "x"}}{{.}}{{end}}{{range .list}}{{template "x" .}}{{end}}`:                                                       "aba",
		`{{define "x"}}{{range .}}{{if eq . "b"}}{{break}}{{end}}{{.}}{{end}}{{end}}{{template "x" .list}}-{{template "x" .list}}`: "a-a",
		`{{block "x" .path}}{{.basename}}{{end}}{{template "x" .path}}`:                                                            "webweb",
		`{{define "a"}}a{{template "b" .}}{{end}}{{define "b"}}{{.name}}{{end}}{{template "a" .}}`:                                 "aweb",
		`{{define "x"}}y{{end}}`:       "",
		`{{define "base"}}y{{end}}`:    "y",
		deep + `{{template "down" 3}}`: "3;2;1;",
		// Ended templates are not deep: 1,500 calls, one after the other.
		`{{define "x"}}.{{end}}{{range until 1500}}{{template "x"}}{{end}}`: strings.Repeat(".", 1500),
	} {
		got, err := e.Text(t.Context(), text, params())
		if err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	// A template of one text is none of another.
	if got, err := e.Text(t.Context(), `{{template "x"}}`, params()); err == nil {
		t.Errorf("a template of another text gives %q", got)
	}
	// The deepest call.
	if _, err := e.Text(t.Context(), deep+`{{template "down" 998}}`, params()); err != nil {
		t.Error(err)
	}
	if _, err := e.Text(t.Context(), deep+`{{template "down" 999}}`, params()); err == nil {
		t.Error("1001 calls in each other are taken")
	}
}

// TestFunctionsOfArgoCD: templates have every function of sprig, but for those
// that Argo CD takes away, and Argo CD's own.
func TestFunctionsOfArgoCD(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	for name := range sprig.TxtFuncMap() {
		// The call is never reached, and the parser knows the function.
		_, err := e.Text(t.Context(), "{{if false}}{{"+name+"}}{{end}}", params())
		taken := name == "env" || name == "expandenv" || name == "getHostByName"
		if (err != nil) != taken {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, pattern := range map[string]string{
		`{{randAlphaNum 8}}{{randNumeric 3}}`:                   `^[A-Za-z0-9]{8}[0-9]{3}$`,
		`{{uuidv4}}`:                                            `^[0-9a-f]{8}-[0-9a-f-]{27}$`,
		`{{htpasswd "a" "b"}}`:                                  `^a:\$2a\$`,
		`{{genPrivateKey "ed25519" | trunc 10}}`:                `^-----BEGIN$`,
		`{{len (shuffle .name)}}{{randInt 1 2}}`:                `^31$`,
		`{{(genSelfSignedCert "a" nil nil 1).Cert | trunc 10}}`: `^-----BEGIN$`,
		`{{derivePassword 1 "long" "a" "b" "c" | len}}`:         `^14$`,
	} {
		got, err := e.Text(t.Context(), text, params())
		if err != nil || !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: %q %v, want %s", text, got, err, pattern)
		}
	}
}

// TestSimple: without goTemplate, {{name}} is a parameter, and stays when it is
// none.
func TestSimple(t *testing.T) {
	e := expander(t, expand.Form{})
	for text, want := range map[string]string{
		"plain": "plain", "{{name}}-{{ name }}": "web-web", "{{path.basename}}": "flat", "{{other}}": "{{other}}",
		"{{number}}": "{{number}}", "{{}}": "{{}}", "{{name": "{{name", "a}}{{name}}": "a}}web", "{{.name}}": "{{.name}}",
	} {
		if got, err := e.Text(t.Context(), text, params()); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	if _, err := e.Text(t.Context(), "{{name}}{{", params()); err == nil || !strings.Contains(err.Error(), "{{ without }}") {
		t.Errorf("a tag without an end: %v", err)
	}
}

// TestSlug: a branch becomes a label of a domain as in Argo CD.
func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"Feature/A_b": "feature-a-b", "user@x&y's \"fix\"": "useratxandys-fix", "grün/größe--Ærø": "grun-grosse-aero", "e\u0301cole": "ecole", "тест": "test", "  функция/ёлка ": "funktsiia-iolka",
		"機能/追加": "ji-neng-zhui-jia", "–a—b…": "a-b", "🚀-a": "a", "_a__b_": "a-b", "＿a＿b": "a_b", "\xff": "", "ﬁx½": "fix1-2",
		"a-" + strings.Repeat("b", 47) + "-cd": "a-" + strings.Repeat("b", 47), strings.Repeat("a", 60): strings.Repeat("a", 50),
		strings.Repeat("a", 25) + "-" + strings.Repeat("b", 24): strings.Repeat("a", 25) + "-" + strings.Repeat("b", 24),
	} {
		if got := expand.Slug(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMissingKey(t *testing.T) {
	e := expander(t, expand.Form{Go: true, Options: []string{"missingkey=error"}})
	if _, err := e.Text(t.Context(), "{{.missing}}", params()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a parameter that is not there: %v", err)
	}
	if _, err := expand.New(expand.Form{Go: true, Options: []string{"missingkey=maybe"}}); err == nil {
		t.Error("an option that does not exist is taken")
	}
}

func TestValue(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	given := map[string]any{"{{.name}}": []any{"{{.name}}", int64(1), nil, map[string]any{"a": "b{{.name}}"}}, "c": true}
	got, err := e.Value(t.Context(), given, params())
	want := map[string]any{"web": []any{"web", int64(1), nil, map[string]any{"a": "bweb"}}, "c": true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if given["{{.name}}"].([]any)[0] != "{{.name}}" {
		t.Error("what was given is changed")
	}
	if _, err := e.Value(t.Context(), map[string]any{"{{.name}}": 1, "web": 2}, params()); err == nil {
		t.Error("two fields of one name are taken")
	}
	if _, err := e.Value(t.Context(), []any{"{{"}, params()); err == nil {
		t.Error("a template that cannot be read is taken")
	}
}

// A template changes nothing for the next one.
func TestPure(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	given := params()
	must.Get(e.Text(t.Context(), `{{ $_ := set . "name" "changed" }}{{ $_ := set .path "path" "changed" }}{{ $_ := merge . (dict "more" 1) }}`, given))(t)
	if !reflect.DeepEqual(given, params()) {
		t.Errorf("the parameters are %v", given)
	}
}

func TestRefused(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	t.Setenv("SECRET", "hidden")
	for text, part := range map[string]string{
		`{{env "SECRET"}}`:                                      `"env" not defined`,
		`{{expandenv "$SECRET"}}`:                               `"expandenv" not defined`,
		`{{getHostByName "localhost"}}`:                         `"getHostByName" not defined`,
		`{{randInt 5 5}}`:                                       "randInt",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`: "more than 1000 deep",
		`{{define "a"}}{{template "b"}}{{end}}{{define "b"}}{{template "a"}}{{end}}{{block "c" .}}{{template "a"}}{{end}}`: "more than 1000 deep",
		`{{template "base" .}}`:                        "more than 1000 deep",
		`{{template "a"}}`:                             `"a" not defined`,
		`{{define "a"}}x{{end}}{{define "a"}}y{{end}}`: "multiple definition",
		`{{if .yes}}{{leave}}{{end}}`:                  `"leave" not defined`,
		`{{slugify -1 false "a"}}`:                     "write a length from 0",
		`{{`:                                           "unclosed action",
		`{{.name.x}}`:                                  "name",
		`{{slugify 1 2 3 4}}`:                          "slugify takes",
		`{{fail "because"}}`:                           "because",
		strings.Repeat("{{.name}}", 40000):             "bytes",
	} {
		got, err := e.Text(t.Context(), text, params())
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.60s: %.40q %v, want %q in the error", text, got, err, part)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.60s: the error has %d characters", text, len(err.Error()))
		}
	}
}

// What would take all memory or all time is ended.
func TestHostile(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	big := params()
	big["big"] = strings.Repeat("a", 500_000)
	for name, text := range map[string]string{
		"repeat":               `{{repeat 1000000000 "a"}}`,
		"repeat of repeat":     `{{repeat 1000000 (repeat 1000000 "a")}}`,
		"negative":             `{{repeat -1 "a"}}`,
		"until":                `{{until 1000000000}}`,
		"untilStep":            `{{untilStep 0 1000000000 1}}`,
		"untilStep backwards":  `{{untilStep 1000000000 0 -1}}`,
		"seq":                  `{{seq 1 1000000000}}`,
		"seq backwards":        `{{seq 1000000000 1}}`,
		"seq step":             `{{seq 1 1 1000000000}}`,
		"indent":               `{{indent 1000000000 "a"}}`,
		"nindent":              `{{nindent 1000000000 "a"}}`,
		"width":                `{{printf "%1000000d" 1}}`,
		"precision":            `{{printf "%.1000000f" 1.0}}`,
		"width as argument":    `{{printf "%*d" 1000000 1}}`,
		"replace":              `{{replace "a" .big .big}}`,
		"regexReplaceAll":      `{{regexReplaceAll "a" .big .big}}`,
		"regex of a long text": `{{regexMatch "a{1000}" .big}}`,
		"long regex":           `{{regexMatch (repeat 1000 "a") .name}}`,
		"join":                 `{{join .big (splitList "" .big)}}`,
		"uniq":                 `{{uniq (splitList "" .big)}}`,
		"doubling":             `{{$x := .name}}{{range until 60}}{{$x = print $x $x}}{{end}}`,
		"doubling by cat":      `{{$x := .name}}{{range until 60}}{{$x = cat $x $x}}{{end}}`,
		"doubling a list":      `{{$x := list 1}}{{range until 60}}{{$x = list $x $x}}{{end}}{{toJson $x}}`,
		"doubling a dict":      `{{$x := dict}}{{range until 60}}{{$x = dict "a" $x "b" $x}}{{end}}{{toYaml $x}}`,
		"itself":               `{{$_ := set . "self" .}}{{toJson .}}`,
		"loops":                `{{range until 10000}}{{range until 10000}}{{range until 10000}}{{end}}{{end}}{{end}}`,
		"a long loop":          `{{range 1000000000000}}{{end}}`,
		"much output":          `{{range until 10000}}{{$.branch}}{{$.branch}}{{$.branch}}{{end}}`,
		"quotes":               `{{$x := .big}}{{range until 60}}{{$x = quote $x}}{{end}}`,
		"html":                 `{{$x := "<"}}{{range until 60}}{{$x = html $x $x}}{{end}}`,
		"random":               `{{randAlphaNum 1000000000}}`,
		"random bytes":         `{{randBytes 1000000000}}`,
		"hashes":               `{{range until 10000}}{{bcrypt "a"}}{{end}}`,
		"passwords":            `{{range until 10000}}{{derivePassword 1 "long" "a" "b" "c"}}{{end}}`,
		"keys":                 `{{range until 10000}}{{genPrivateKey "ed25519"}}{{end}}`,
		"doubling calls":       doublingCalls(),
		"a loop in a template": `{{define "x"}}{{range 1000000000000}}{{end}}{{end}}{{template "x"}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got, err := e.Text(t.Context(), text, big)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s gives %d bytes", name, len(got))
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
			t.Errorf("%s used %d MiB", name, used>>20)
		}
	}
}

// doublingCalls are templates of which each calls the next one twice.
func doublingCalls() string {
	text := `{{define "t40"}}{{end}}{{template "t0"}}`
	for i := range 40 {
		text += fmt.Sprintf(`{{define "t%d"}}{{template "t%d"}}{{template "t%[2]d"}}{{end}}`, i, i+1)
	}
	return text
}

func TestTime(t *testing.T) {
	e := expander(t, expand.Form{Go: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Text(ctx, "{{range until 10}}{{end}}", params()); err == nil {
		t.Error("a template runs although there is no time left")
	}
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"{{.name}}", "{{range .list}}{{.}}{{end}}", `{{printf "%v" .}}`, "{{with .path}}{{.path}}{{end}}", "{{/* a */}}", "{{- .name -}}", "{{name}}", `{{slugify 3 .name}}`} {
		f.Add(seed)
	}
	goForm, simpleForm := expander(f, expand.Form{Go: true}), expander(f, expand.Form{})
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, e := range []*expand.Expander{goForm, simpleForm} {
			got, err := e.Text(ctx, text, params())
			if err != nil && got != "" {
				t.Errorf("%q gives %q and %v", text, got, err)
			}
			if !strings.Contains(text, "{{") && got != text {
				t.Errorf("%q has no parameter and becomes %q", text, got)
			}
		}
	})
}

func FuzzNormalize(f *testing.F) {
	f.Add("A_b")
	f.Fuzz(func(t *testing.T, text string) {
		name := expand.Normalize(text)
		if strings.Trim(name, "-.") != name || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("%q becomes %q", text, name)
		}
	})
}
