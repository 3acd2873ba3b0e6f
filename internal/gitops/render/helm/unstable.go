package helm

import (
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// unstable are the functions that give another result each time. Such a
// function can make an Application OutOfSync after every render, and automated
// sync then applies it each time.
func unstable() []string {
	return []string{
		"ago", "bcrypt", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert",
		"genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "htpasswd", "now", "randAlpha",
		"randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
	}
}

// functionWatch notes which of them templates call.
type functionWatch struct {
	functions template.FuncMap
	called    map[string]bool
}

// watchFunctions wraps the unstable functions of the template engine.
// Reflection keeps their signatures, so that templates see no difference.
func watchFunctions() *functionWatch {
	watch := &functionWatch{functions: template.FuncMap{}, called: map[string]bool{}}
	all := sprig.TxtFuncMap()
	for _, name := range unstable() {
		original := reflect.ValueOf(all[name])
		// A version of sprig may drop a function; the list is then ahead of it.
		if !original.IsValid() {
			continue
		}
		watch.functions[name] = reflect.MakeFunc(original.Type(), func(arguments []reflect.Value) []reflect.Value {
			watch.called[name] = true
			if original.Type().IsVariadic() {
				return original.CallSlice(arguments)
			}
			return original.Call(arguments)
		}).Interface()
	}
	return watch
}

// warn adds a warning for each unstable function that was called, with the
// templates that contain its name.
func (w *functionWatch) warn(loaded *chart.Chart, into *manifest.Set) {
	for _, name := range slices.Sorted(maps.Keys(w.called)) {
		// By text, because the call does not reveal its template. A comment
		// that contains the name is listed too, which does no harm.
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		var found []string
		for file, text := range templatesOf(loaded) {
			if word.Match(text) {
				found = append(found, file)
			}
		}
		slices.Sort(found)
		into.Warn("%s: the function %s gives another result each time, so that the application changes with every render; "+
			"keep the value in a Secret that is not rendered", strings.Join(found, ", "), name)
	}
}

// templatesOf returns the templates of a chart and of its dependencies, by full
// path.
func templatesOf(loaded *chart.Chart) map[string][]byte {
	all := map[string][]byte{}
	for _, file := range loaded.Templates {
		if file != nil {
			all[path.Join(loaded.ChartFullPath(), file.Name)] = file.Data
		}
	}
	for _, dependency := range loaded.Dependencies() {
		maps.Copy(all, templatesOf(dependency))
	}
	return all
}
