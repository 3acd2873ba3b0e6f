package loss

import (
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

// oracle is what files contain, read by Helm's library and by a YAML library, with
// nothing of the renderer.
type oracle struct {
	// objects are in the order of the files. The last one of a name counts.
	objects []*unstructured.Unstructured
	// ofFile is how many of them a file has.
	ofFile map[string]int
	// wrong are the files that may not be rendered. An error has to name one.
	wrong map[string]bool
	file  string
}

// read reads the files of a folder, or of a chart.
func read(t *testing.T, files map[string]string, isChart bool) *oracle {
	t.Helper()
	if isChart {
		return readChart(t, files)
	}
	return readFolder(files)
}

// readFolder reads all files of a folder as manifests.
func readFolder(files map[string]string) *oracle {
	o := &oracle{ofFile: map[string]int{}, wrong: map[string]bool{}}
	for _, name := range sortedNames(files) {
		o.file = path.Base(name)
		// Helm splits at text that follows the mark directly. In a folder it is an
		// error: to kubectl it belongs to the document before.
		if files[name] == pointer || joined.MatchString(files[name]) {
			o.wrong[o.file] = true
		}
		for _, chunk := range split(strings.TrimPrefix(files[name], "\ufeff")) {
			for _, document := range ended.Split(chunk, -1) {
				// Helm splits a directive from the document that it is for.
				o.document(directive.ReplaceAllString(document, ""))
			}
		}
	}
	return o
}

var (
	joined    = regexp.MustCompile(`(?m)^---[^ \t\r\n#]`)
	ended     = regexp.MustCompile(`(?m)^\.\.\.[ \t\r]*$`)
	directive = regexp.MustCompile(`(?m)^%.*$`)
	// topKey is a key at the top of a document that is not in one line.
	topKey = regexp.MustCompile(`(?m)^(\w+):`)
)

// readChart reads what Helm prints of a chart.
func readChart(t *testing.T, files map[string]string) *oracle {
	t.Helper()
	o := &oracle{ofFile: map[string]int{}, wrong: map[string]bool{}}
	printed, err := printChart(t, files)
	if err != nil {
		for name := range files {
			o.wrong[path.Base(name)] = true
		}
		return o
	}
	for _, chunk := range split(printed) {
		// What Helm prints of a template may have a mark of its own.
		if line, _, _ := strings.Cut(chunk, "\n"); strings.HasPrefix(line, "# Source: ") {
			o.file = path.Base(line)
		}
		o.document(chunk)
	}
	return o
}

// printChart is the output of "helm template".
func printChart(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	var buffered []*archive.BufferedFile
	for name, text := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: strings.TrimPrefix(name, "app/"), Data: []byte(strings.TrimPrefix(text, "\ufeff"))})
	}
	loaded := must.Get(loader.LoadFiles(buffered))(t)
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy, install.Replace = action.DryRunClient, true
	install.ReleaseName, install.Namespace = "shop", "shop"
	made, err := install.Run(loaded, map[string]any{})
	if err != nil {
		return "", err
	}
	rel := made.(*release.Release)
	text := rel.Manifest
	for _, hook := range rel.Hooks {
		text += "\n---\n# Source: " + hook.Path + "\n" + hook.Manifest
	}
	return text, nil
}

// split is Helm's.
func split(text string) []string {
	found := releaseutil.SplitManifests(text)
	var names []string
	for name := range found {
		names = append(names, name)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(names))
	var chunks []string
	for _, name := range names {
		chunks = append(chunks, found[name])
	}
	return chunks
}

// document adds the objects of one document.
func (o *oracle) document(text string) {
	var content any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		o.wrong[o.file] = true
		return
	}
	keys := map[string]bool{}
	for _, key := range topKey.FindAllStringSubmatch(text, -1) {
		if keys[key[1]] {
			o.wrong[o.file] = true
		}
		keys[key[1]] = true
	}
	if content != nil {
		o.add(content, "", 0)
	}
}

// add adds an object, or those of a list whose elements have a kind.
func (o *oracle) add(content any, kind string, lists int) {
	object, isObject := content.(map[string]any)
	if isObject && object["kind"] == nil && kind != "" {
		object["kind"], object["apiVersion"] = kind, "v1"
	}
	found := &unstructured.Unstructured{Object: object}
	metadata := object["metadata"]
	_, isMap := metadata.(map[string]any)
	if !isObject || found.GetKind() == "" || found.GetAPIVersion() == "" || metadata != nil && !isMap || lists > 5 {
		o.wrong[o.file] = true
		if found.GetKind() != "" && isMap && found.GetName() != "" {
			o.ofFile[o.file]++ // an object that lacks something, which is not left out
		}
		return
	}
	if element, isList := strings.CutSuffix(found.GetKind(), "List"); isList {
		items, _ := object["items"].([]any)
		for _, item := range items {
			o.add(item, element, lists+1)
		}
		return
	}
	o.objects = append(o.objects, found)
	o.ofFile[o.file]++
}

// documents are the objects with what has to become of them.
func (o *oracle) documents() []document {
	var all []document
	for _, object := range o.objects {
		one := document{name: object.GetName(), text: fmt.Sprint(object.Object)}
		_, isHook := object.GetAnnotations()["argocd.argoproj.io/hook"]
		switch {
		case one.name == "" && isHook:
			one.name = object.GetGenerateName()
		case one.name == "":
			one.fate = refused
		case object.GetAPIVersion() == "unheard.example/v1":
			one.fate = blocking
		}
		all = append(all, one)
	}
	return all
}

func sortedNames(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// quiet keeps what Helm logs out of the output of a test.
func quiet(t *testing.T) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(before) })
}
