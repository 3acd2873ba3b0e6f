package edit_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/gitops/imageupdate/edit"
	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
	"slipway.dev/slipway/internal/must"
)

// TestSetValues: a value changes where it is, and nothing else does.
func TestSetValues(t *testing.T) {
	for _, tt := range []struct{ name, before, path, value, want string }{
		{"plain", "# top\nimage:\n    tag: v1 # keep\n    name: x\n", "image.tag", "v2", "# top\nimage:\n    tag: v2 # keep\n    name: x\n"},
		{"double quotes", "image: {name: 'a', tag: \"v1\"} # flow\n", "image.tag", "v2", "image: {name: 'a', tag: \"v2\"} # flow\n"},
		{"single quotes", "tag: 'v1'\nother: 1\n", "tag", "1.10", "tag: '1.10'\nother: 1\n"},
		{"a number gets quotes", "tag: 1.10\n", "tag", "1.20", "tag: \"1.20\"\n"},
		{"a date gets quotes", "tag: v1\n", "tag", "2024-01-02", "tag: \"2024-01-02\"\n"},
		{"a version needs none", "tag: 1.2.3\n", "tag", "1.2.4", "tag: 1.2.4\n"},
		{"no value", "image:\n  tag:\n  name: x\n", "image.tag", "v2", "image:\n  tag: v2\n  name: x\n"},
		{"list", "web:\n- tag: v1\n- tag: v1 # second\n", "web[1].tag", "v2", "web:\n- tag: v1\n- tag: v2 # second\n"},
		{"key with dots", "image.tag: v1\n", "image.tag", "v2", "image.tag: v2\n"},
		{"missing key", "image:\n  name: x # name\nlast: [1,\n  2]\n", "image.tag", "v2", "image:\n  name: x # name\n  tag: v2\nlast: [1,\n  2]\n"},
		{"missing everything", "a: 1", "image.tag", "v2", "a: 1\nimage:\n  tag: v2\n"},
		{"empty file", "", "image.tag", "v2", "image:\n  tag: v2\n"},
		{"not only ASCII", "näme: \"é\" # ü\ntäg: {ö: v1}\n", "täg.ö", "v2", "näme: \"é\" # ü\ntäg: {ö: v2}\n"},
		{"flow mapping without the key", "image: {name: x} # keep\n", "image.tag", "v2", "image: {name: x, tag: v2} # keep\n"},
		{"carriage returns", "image:\r\n  tag: v1\r\n", "image.tag", "v2", "image:\r\n  tag: v2\r\n"},
		{"literal block", "tag: |-\n  v1\nb: 1\n", "tag", "v2", "tag: v2\nb: 1\n"},
		{"unchanged", "image: {tag: v2}\n", "image.tag", "v2", "image: {tag: v2}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := edit.SetValues([]byte(tt.before), []edit.Value{{Path: tt.path, Value: tt.value}})
			if err != nil || string(got) != tt.want {
				t.Fatalf("%v:\n%s\nwant\n%s", err, got, tt.want)
			}
			if again := must.Get(edit.SetValues(got, []edit.Value{{Path: tt.path, Value: tt.value}}))(t); string(again) != tt.want {
				t.Errorf("a second time gives\n%s", again)
			}
			if value := edit.GetValue(got, tt.path); value != tt.value {
				t.Errorf("the value is %q", value)
			}
		})
	}
}

func TestSetValuesRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, path string }{
		"list at the path": {"image: [a]\n", "image.tag"}, "value at the path": {"image: a\n", "image.tag"},
		"mapping at the path": {"tag: {a: b}\n", "tag"}, "alias": {"a: &x {tag: v1}\nb: *x\n", "b.tag"},
		"no such entry": {"a: []\n", "a[0].tag"}, "no mapping": {"- a\n", "tag"}, "no YAML": {"a: [\n", "tag"},
		"documents": {"a: 1\n---\nb: 1\n", "tag"}, "no path": {"a: 1\n", "a..b"}, "index": {"a: 1\n", "a[x]"}, "large": {"a: " + strings.Repeat("x", edit.MaxBytes), "a"},
	} {
		if got, err := edit.SetValues([]byte(tt.text), []edit.Value{{Path: tt.path, Value: "v2"}}); err == nil {
			t.Errorf("%s gives %s", name, got)
		}
	}
	got := must.Get(edit.SetValues([]byte("a: 1\n"), []edit.Value{{Path: "image.name", Value: "x", Optional: true}}))(t)
	if string(got) != "a: 1\n" {
		t.Errorf("a path that is optional was added: %s", got)
	}
}

// TestSetImage: a kustomization changes as by kustomize edit set image, but keeps its
// form.
func TestSetImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct {
		name, before string
		image        edit.Image
		want         string
	}{
		{"tag", "resources: [a.yaml]\nimages: # all\n- name: web\n  newTag: v1 # old\n- name: api\n  newTag: v1\n", edit.Image{Name: "web", NewTag: "v2"},
			"resources: [a.yaml]\nimages: # all\n- name: web\n  newTag: v2 # old\n- name: api\n  newTag: v1\n"},
		{"no list", "resources:\n  - a.yaml\n", edit.Image{Name: "web", NewTag: "1.0"}, "resources:\n  - a.yaml\nimages:\n- name: web\n  newTag: \"1.0\"\n"},
		{"another name", "images:\n  - name: web # first\n", edit.Image{Name: "web", NewName: "reg.example/web", NewTag: "v2"},
			"images:\n  - name: web # first\n    newName: reg.example/web\n    newTag: v2\n"},
		{"another entry", "images:\n  - name: api\n    newTag: v1\nnamespace: x\n", edit.Image{Name: "web", NewTag: "v2"},
			"images:\n  - name: api\n    newTag: v1\n  - name: web\n    newTag: v2\nnamespace: x\n"},
		{"digest in the place of a tag", "images:\n- name: web\n  newTag: v1\n", edit.Image{Name: "web", Digest: digest}, "images:\n- name: web\n  digest: " + digest + "\n"},
		{"tag in the place of a digest", "images:\n- digest: " + digest + "\n  name: web\n", edit.Image{Name: "web", NewTag: "v2"}, "images:\n  - name: web\n    newTag: v2\n"},
		{"flow", "images: [{name: web, newTag: v1}]\n", edit.Image{Name: "web", NewTag: "v2"}, "images: [{name: web, newTag: v2}]\n"},
		{"empty list", "images: []\n", edit.Image{Name: "web", NewTag: "v2"}, "images: [{name: web, newTag: v2}]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := edit.SetImage([]byte(tt.before), tt.image)
			if err != nil || string(got) != tt.want {
				t.Fatalf("%v:\n%s\nwant\n%s", err, got, tt.want)
			}
			if again := must.Get(edit.SetImage(got, tt.image))(t); string(again) != tt.want {
				t.Errorf("a second time gives\n%s", again)
			}
			if found, ok := edit.GetImage(got, tt.image.Name); !ok || found != tt.image {
				t.Errorf("the image is %+v", found)
			}
		})
	}
	for name, text := range map[string]string{"mapping": "images: {a: b}\n", "names": "images: [web]\n", "documents": "a: 1\n---\na: 1\n"} {
		if got, err := edit.SetImage([]byte(text), edit.Image{Name: "web", NewTag: "v2"}); err == nil {
			t.Errorf("%s gives %s", name, got)
		}
	}
}

// TestSetManifestImages: all fields that name the image change, in all documents, and
// no others.
func TestSetManifestImages(t *testing.T) {
	const before = `# two
kind: Deployment
spec: {template: {spec: {containers: [{name: a, image: "reg.example/team/web:v1"}, {name: b, image: reg.example/team/other:v1}]}}}
---
kind: CronJob
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers:
            - image: reg.example/team/web # no tag
              name: c
          volumes: [{name: image, configMap: {name: reg.example/team/web:v1}}]
`
	image := must.Get(strategy.ParseImage("reg.example/team/web"))(t)
	got, replaced, err := edit.SetManifestImages([]byte(before), image, "reg.example/team/web:v2")
	want := strings.NewReplacer(`"reg.example/team/web:v1"}`, `"reg.example/team/web:v2"}`, "web # no", "web:v2 # no").Replace(before)
	if err != nil || string(got) != want || len(replaced) != 2 {
		t.Errorf("%v, %q:\n%s", err, replaced, got)
	}
	again, replaced, err := edit.SetManifestImages(got, image, "reg.example/team/web:v2")
	if err != nil || string(again) != want || len(replaced) != 0 {
		t.Errorf("a second time: %v, %q:\n%s", err, replaced, again)
	}
}

// TestOverrides: the files of Argo CD get parameters in their order, and keep what else
// is in them.
func TestOverrides(t *testing.T) {
	text := must.Get(edit.SetParameters([]byte("# ours\nhelm:\n  parameters:\n  - name: image.tag\n    value: v1\n    forcestring: true\nkustomize: {namePrefix: a-}\n"),
		[]edit.Value{{Path: "image.tag", Value: "1.20"}, {Path: "image.name", Value: "web"}}))(t)
	want := "# ours\nhelm:\n  parameters:\n    - name: image.name\n      value: web\n      forceString: true\n    - name: image.tag\n      value: \"1.20\"\n      forceString: true\nkustomize: {namePrefix: a-}\n"
	if string(text) != want || edit.GetParameter(text, "image.tag") != "1.20" {
		t.Errorf("the file is\n%s", text)
	}
	text = must.Get(edit.SetOverrideImage(nil, "web", "web=reg.example/web:v2"))(t)
	text = must.Get(edit.SetOverrideImage(text, "web", "web=reg.example/web:v3"))(t)
	text = must.Get(edit.SetOverrideImage(text, "reg.example:5000/api", "reg.example:5000/api:v1"))(t)
	if string(text) != "kustomize:\n  images:\n    - web=reg.example/web:v3\n    - reg.example:5000/api:v1\n" || edit.GetOverrideImage(text, "web") != "web=reg.example/web:v3" {
		t.Errorf("the file is\n%s", text)
	}
}

// FuzzSetValues: what is set can be read, and the file still parses.
func FuzzSetValues(f *testing.F) {
	f.Add([]byte("image:\n  tag: v1 # x\n"), "image.tag")
	f.Add([]byte("a: &x [1]\nb: *x\nimage: {tag: \"v\\\"1\"}\n"), "image.tag")
	f.Add([]byte("? [a]\n: b\ntag: |\n  x\n"), "tag")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		got, err := edit.SetValues(text, []edit.Value{{Path: path, Value: "v2"}})
		if err != nil {
			return
		}
		var document yaml.Node
		if err := yaml.Unmarshal(got, &document); err != nil || edit.GetValue(got, path) != "v2" {
			t.Errorf("%q becomes %q: %v", text, got, err)
		}
	})
}

// FuzzSetImage: an image that is set is found.
func FuzzSetImage(f *testing.F) {
	f.Add([]byte("images:\n- name: web\n  newTag: v1\n"))
	f.Add([]byte("images: [{name: web}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := edit.SetImage(text, edit.Image{Name: "web", NewTag: "v2"})
		if err != nil {
			return
		}
		if found, ok := edit.GetImage(got, "web"); !ok || found.NewTag != "v2" || found.Digest != "" {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// TestCopy: values move from one file to another, which keeps its form.
func TestCopy(t *testing.T) {
	for _, tt := range []struct{ name, source, target, path, want string }{
		{"plain", "image: {tag: v2}\n", "# prod\nimage:\n    name: x\n    tag: v1 # keep\n", "$.image.tag", "# prod\nimage:\n    name: x\n    tag: v2 # keep\n"},
		{"without the dollar", "appVersion: 2.0.0\n", "appVersion: 1.0.0\n", "appVersion", "appVersion: 2.0.0\n"},
		{"without the dot", "appVersion: 2.0.0\n", "appVersion: 1.0.0\n", "$appVersion", "appVersion: 2.0.0\n"},
		{"quotes of the target", "tag: v2\n", "tag: \"v1\"\n", "$.tag", "tag: \"v2\"\n"},
		{"a number stays one", "replicas: 3\n", "replicas: \"1\" # x\n", "$.replicas", "replicas: 3 # x\n"},
		{"a text that looks like a number", "tag: \"1.10\"\n", "tag: 1.2.3\n", "$.tag", "tag: \"1.10\"\n"},
		{"any depth", "a:\n  image: {tag: v2}\nb:\n- image: {tag: v3}\n", "a:\n  image:\n    tag: v1 # one\nb:\n- image:\n    tag: v1 # two\n", "$..image.tag", "a:\n  image:\n    tag: v2 # one\nb:\n- image:\n    tag: v3 # two\n"},
		{"a mapping of the same keys", "image: {repository: r, tag: v2}\n", "image:\n  tag: v1 # keep\n  repository: r\n", "$..image", "image:\n  tag: v2 # keep\n  repository: r\n"},
		{"another list", "dependencies:\n- {name: a, version: 2.0.0}\n- {name: b, version: 1.0.0}\n", "name: x # x\ndependencies:\n- {name: a, version: 1.0.0}\n", "$.dependencies",
			"name: x # x\ndependencies:\n  - {name: a, version: 2.0.0}\n  - {name: b, version: 1.0.0}\n"},
		{"all entries", "d: {a: 1, b: 2}\n", "d:\n  a: 0\n  b: 0\n", "$.d.*", "d:\n  a: 1\n  b: 2\n"},
		{"index", "images:\n- newTag: v2\n", "images:\n- name: x\n  newTag: v1\n", "$.images[0].newTag", "images:\n- name: x\n  newTag: v2\n"},
		{"key in brackets", "data: {app.version: v2}\n", "data:\n  app.version: v1\n", "$.data['app.version']", "data:\n  app.version: v2\n"},
		{"missing in the target", "image: {tag: v2}\n", "image:\n  name: x\n", "$.image.tag", "image:\n  name: x\n  tag: v2\n"},
		{"missing in the source", "other: 1\n", "image: {tag: v1}\n", "$.image.tag", "image: {tag: v1}\n"},
		{"null", "tag: null\n", "tag: v1\n", "$.tag", "tag: null\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := must.Get(edit.ParseSelector(tt.path))(t)
			got, _, err := edit.Copy([]byte(tt.target), []byte(tt.source), []edit.Selector{path})
			if err != nil || string(got) != tt.want {
				t.Fatalf("%v:\n%s\nwant\n%s", err, got, tt.want)
			}
			again, _, err := edit.Copy(got, []byte(tt.source), []edit.Selector{path})
			if err != nil || string(again) != tt.want {
				t.Errorf("a second time gives %v\n%s", err, again)
			}
		})
	}
}

func TestCopyRefuses(t *testing.T) {
	path := must.Get(edit.ParseSelector("$.a.b[0]"))(t)
	for name, tt := range map[string]struct{ source, target string }{
		"alias": {"x: &x 1\na: {b: [*x]}\n", "a: {b: [2]}\n"}, "entry": {"a: {b: [1]}\n", "a: {b: []}\n"}, "shape": {"a: {b: [1]}\n", "a: text\n"},
		"documents": {"a: {b: [1]}\n", "a: 1\n---\nb: 1\n"}, "source": {"- 1\n", "a: 1\n"},
	} {
		if got, _, err := edit.Copy([]byte(tt.target), []byte(tt.source), []edit.Selector{path}); err == nil {
			t.Errorf("%s gives %s", name, got)
		}
	}
	for _, text := range []string{"", "$", "$.", "$..", "$.a[?(@.b)]", "$.a[1:2]", "$.a[0,1]", "$.a[", "$['a", "$.a b", "$...a", "a\nb", strings.Repeat(".a", 65)} {
		if got, err := edit.ParseSelector(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add("image: {tag: v2}\n", "image:\n  tag: v1 # x\n", "$..image")
	f.Add("a: [1, {b: c}]\n", "a:\n- 1\n- b: x\n", "$.a[1].b")
	f.Add("a: 'x: y'\n", "a: |-\n  z\n", "$['a']")
	f.Fuzz(func(t *testing.T, source, target, path string) {
		selector, err := edit.ParseSelector(path)
		if err != nil {
			return
		}
		changed, _, err := edit.Copy([]byte(target), []byte(source), []edit.Selector{selector})
		if err != nil {
			return
		}
		again, _, err := edit.Copy(changed, []byte(source), []edit.Selector{selector})
		if err != nil || string(again) != string(changed) {
			t.Errorf("a second time gives %v\n%s\nand not\n%s", err, again, changed)
		}
	})
}
