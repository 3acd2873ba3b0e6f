package appset

import (
	"testing"

	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/must"
)

// Ignored fields of an Application are neither written nor removed, whatever
// else of it changes.
func TestIgnoredFieldsStay(t *testing.T) {
	c := &Controller{paths: jq.New()}
	for name, test := range map[string]struct{ rule, live, want, patch string }{
		"equal":           {`{jsonPointers: [/spec/source/targetRevision]}`, `{source: {path: a, targetRevision: fix}}`, `{source: {path: a, targetRevision: main}}`, `null`},
		"another field":   {`{jsonPointers: [/spec/source/targetRevision]}`, `{source: {path: a, targetRevision: fix}}`, `{source: {path: b, targetRevision: main}}`, `{"spec":{"source":{"path":"b"}}}`},
		"another name":    {`{name: other, jsonPointers: [/spec/source/targetRevision]}`, `{source: {targetRevision: fix}}`, `{source: {targetRevision: main}}`, `{"spec":{"source":{"targetRevision":"main"}}}`},
		"own name":        {`{name: one, jqPathExpressions: [.spec.source.helm.values]}`, `{source: {helm: {values: b}}}`, `{source: {helm: {values: a}}}`, `null`},
		"added by a user": {`{jsonPointers: [/spec/syncPolicy/automated]}`, `{syncPolicy: {automated: {prune: true}}}`, `{}`, `null`},
		"parent not wanted": {`{jsonPointers: [/spec/syncPolicy/automated]}`, `{syncPolicy: {automated: {}, syncOptions: [a]}}`, `{}`,
			`{"spec":{"syncPolicy":{"syncOptions":null}}}`},
		"removed by a user": {`{jsonPointers: [/spec/syncPolicy/automated]}`, `{project: a}`, `{project: a, syncPolicy: {automated: {}}}`, `null`},
		"all of it":         {`{jsonPointers: [/spec/syncPolicy]}`, `{project: a, syncPolicy: {automated: {}}}`, `{project: b}`, `{"spec":{"project":"b"}}`},
		// The example of Argo CD's page, whose list it resets.
		"in a list": {`{jqPathExpressions: ['.spec.sources[] | select(.repoURL == "r1").targetRevision']}`,
			`{sources: [{repoURL: r1, targetRevision: fix}, {repoURL: r2, targetRevision: fix}]}`,
			`{sources: [{repoURL: r1, targetRevision: main}, {repoURL: r2, targetRevision: main}]}`,
			`{"spec":{"sources":[{"repoURL":"r1","targetRevision":"fix"},{"repoURL":"r2","targetRevision":"main"}]}}`},
		"deep in a list": {`{jqPathExpressions: ['.spec.sources[].helm.values']}`,
			`{sources: [{path: a, helm: {values: fix, releaseName: x}}]}`, `{sources: [{path: b, helm: {values: main, releaseName: z}}]}`,
			`{"spec":{"sources":[{"helm":{"releaseName":"z","values":"fix"},"path":"b"}]}}`},
		"longer list": {`{jqPathExpressions: ['.spec.sources[].targetRevision']}`,
			`{sources: [{path: a, targetRevision: fix}]}`, `{sources: [{path: a, targetRevision: main}, {path: b, targetRevision: main}]}`,
			`{"spec":{"sources":[{"path":"a","targetRevision":"fix"},{"path":"b","targetRevision":"main"}]}}`},
		"metadata": {`{jsonPointers: [/metadata/labels]}`, `{project: a}`, `{project: b}`, `{"spec":{"project":"b"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			set := &v1alpha1.ApplicationSet{}
			var rule v1alpha1.ApplicationSetIgnore
			must.Do(t, yaml.Unmarshal([]byte(test.rule), &rule))
			set.Spec.IgnoreApplicationDifferences = []v1alpha1.ApplicationSetIgnore{rule}
			ignore := must.Get(c.ignoreOf(set))(t)
			body := func(spec string) []byte {
				var decoded map[string]any
				must.Do(t, yaml.Unmarshal([]byte(spec), &decoded))
				return must.Get(json.Marshal(contentOf(map[string]any{"spec": decoded})))(t)
			}
			made := &desired{name: "one", body: body(test.want)}
			patch := must.Get(made.mergePatch(body(test.live), nil, ignore))(t)
			if got := string(must.Get(json.Marshal(patch))(t)); got != test.patch {
				t.Errorf("the patch is %s, want %s", got, test.patch)
			}
		})
	}
}
