package generate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/must"
)

// patchedSet is the example of Argo CD's page about template patches, with a
// patch and the fields of an element.
func patchedSet(patch, element string) string {
	return `
spec:
  goTemplate: true
  generators: [{list: {elements: [` + element + `]}}]
  template:
    metadata: {name: one, annotations: {a: b}, finalizers: [own]}
    spec:
      project: default
      source: {repoURL: https://git/a, path: guestbook, targetRevision: HEAD}
      destination: {server: https://kubernetes.default.svc, namespace: guestbook}
  templatePatch: ` + quoted(patch) + "\n"
}

// quoted is a text in JSON, and so in YAML.
func quoted(text string) string {
	encoded, _ := json.Marshal(text) // a text can always be encoded
	return string(encoded)
}

const documented = `
spec:
  source:
    helm:
      valueFiles:
      {{- range $valueFile := .valueFiles }}
        - {{ $valueFile }}
      {{- end }}
{{- if .autoSync }}
  syncPolicy:
    automated:
      prune: {{ .prune }}
{{- end }}
`

func TestTemplatePatchAsDocumented(t *testing.T) {
	const base = `"destination":{"namespace":"guestbook","server":"https://kubernetes.default.svc"},"project":"default","source":{`
	const source = `"path":"guestbook","repoURL":"https://git/a","targetRevision":"HEAD"}`
	for name, test := range map[string]struct{ patch, element, want string }{
		"documented": {documented, "{autoSync: true, prune: true, valueFiles: [values.large.yaml, values.debug.yaml]}",
			base + `"helm":{"valueFiles":["values.large.yaml","values.debug.yaml"]},` + source + `,"syncPolicy":{"automated":{"prune":true}}`},
		"documented, other parameters": {documented, "{autoSync: false, valueFiles: [a]}", base + `"helm":{"valueFiles":["a"]},` + source},
		"JSON":                         {`{"spec": {"revisionHistoryLimit": {{.limit}}}}`, "{limit: 3}", base[:len(base)-len(`"source":{`)] + `"revisionHistoryLimit":3,"source":{` + source},
		"nothing":                      {"{{if .x}}spec: {}{{end}}", "{x: false}", base + source},
		"project stays":                {"spec: {project: other}", "{}", base + source},
		"null removes":                 {"spec: {source: {targetRevision: null}}", "{}", base + `"path":"guestbook","repoURL":"https://git/a"}`},
		"replace":                      {"spec: {source: {$patch: replace, repoURL: https://git/b, path: c}}", "{}", base + `"path":"c","repoURL":"https://git/b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			made := must.Get(generate.Applications(t.Context(), decodeSet(t, patchedSet(test.patch, test.element)), &world{}))(t)
			object := must.Get(made[0].Unstructured())(t)
			if got := string(must.Get(json.Marshal(object["spec"]))(t)); got != "{"+test.want+"}" {
				t.Errorf("the spec is\n%s, want\n{%s}", got, test.want)
			}
		})
	}
	metadata := must.Get(generate.Applications(t.Context(), decodeSet(t, patchedSet("metadata: {name: two, annotations: {c: d}, finalizers: [own, more]}", "{}")), &world{}))(t)[0]
	if got := fmt.Sprintf("%s %v %v %s", metadata.Name, metadata.Annotations, metadata.Finalizers, metadata.Namespace); got != "two map[a:b c:d] [own more] argocd" {
		t.Errorf("the metadata is %s", got)
	}
}

// A patch cannot lead out of the namespace, nor make what is refused.
func TestTemplatePatchRefused(t *testing.T) {
	for patch, part := range map[string]string{
		"hello world":                  "spec.templatePatch: it is no object",
		"[a]":                          "spec.templatePatch: it is no object",
		"{{.number.x}}":                "spec.templatePatch: the template",
		"spec:":                        "spec",
		"metadata:":                    "cannot be called",
		"metadata: {namespace: other}": "would be in namespace other",
		"metadata: {name: A}":          "cannot be called",
		"metadata: {finalizers: [{a: b}, {a: b}]}": "cannot be read",
		"spec: {sourceHydrator: {a: b}}":           "sourceHydrator",
		"spec: {source: []}":                       "spec.source",
		"spec: {$patch: delete}":                   "spec.destination",
	} {
		made, err := generate.Applications(t.Context(), decodeSet(t, patchedSet(patch, "{number: 1}")), &world{})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s gives %d Applications, %v, want %q", patch, len(made), err, part)
		}
	}
}

func FuzzTemplatePatch(f *testing.F) {
	for _, seed := range []string{documented, `{"metadata": {"finalizers": ["a"]}}`, "spec: {$patch: delete}", "spec: {project: {{.x}}}", "metadata:", "a: &a [*a]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		made, err := generate.Applications(t.Context(), decodeSet(t, patchedSet(patch, "{}")), &world{})
		if err == nil && (made[0].Spec.Project != "default" || made[0].Namespace != "argocd") {
			t.Errorf("the Application is of project %s in %s", made[0].Spec.Project, made[0].Namespace)
		}
	})
}
