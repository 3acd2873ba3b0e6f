package plugin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Call is what a plugin generates manifests of.
type Call struct {
	name        string
	files       tree.Store
	folder      string
	environment []Variable
}

// NewCall is the call for a dependency that a render lacked. The worker that
// reported it is untrusted: it chooses the plugin's name, which the caller has to
// admit, and the values that a source may have; all else is of the request.
func NewCall(request *render.Request, wanted render.Dependency) (*Call, error) {
	var options v1alpha1.ApplicationSourcePlugin
	if wanted.Input < 0 || wanted.Input >= len(request.Inputs) {
		return nil, fmt.Errorf("there is no source %d", wanted.Input)
	}
	if err := json.Unmarshal([]byte(wanted.Plugin), &options); err != nil {
		return nil, fmt.Errorf("read the options of a plugin: %w", err)
	}
	call := newCall(request, wanted.Input, &options)
	call.name = options.Name
	return call, nil
}

// NewMatch is the call to find a plugin that matches an input.
func NewMatch(request *render.Request, input int) *Call {
	return newCall(request, input, request.Inputs[input].Source.Plugin)
}

// newCall is a call without the name of the plugin.
func newCall(request *render.Request, input int, options *v1alpha1.ApplicationSourcePlugin) *Call {
	work := request.Job()
	return &Call{
		files: request.Inputs[input].Store, folder: work.Sources[input].Path,
		environment: environment(work, &work.Sources[input], options),
	}
}

// Name is the plugin's.
func (c *Call) Name() string { return c.name }

// folderName is the name of the application's folder; "." for the root.
func (c *Call) folderName() string { return path.Base(cmp.Or(c.folder, ".")) }

// Key is equal for calls of a plugin that are equal: of the same files with the
// same variables. It is empty if the files have no hash.
func (c *Call) Key() string { return c.key(c.name, "", c.environment) }

// MatchKey is equal for equal matches: of an application's folder that did not
// change, for some plugins. What is beside the folder and the revision does not
// count: a match for each commit would cost a call for each Application.
func (c *Call) MatchKey(candidates []string) string {
	lasting := slices.DeleteFunc(slices.Clone(c.environment), func(v Variable) bool { return strings.HasPrefix(v.Name, "ARGOCD_APP_REVISION") })
	return c.key(strings.Join(candidates, "/"), c.folder, lasting)
}

// key is a hash of a call and the files of a folder.
func (c *Call) key(name, folder string, variables []Variable) string {
	entry, err := c.files.Entry(folder)
	if err != nil || entry.Hash == "" {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q", name, c.folder, entry.Hash, variables)
	return hex.EncodeToString(sum.Sum(nil))
}

// environment is the variables of a plugin, in Argo CD's order.
func environment(work *job.Job, source *job.Source, options *v1alpha1.ApplicationSourcePlugin) []Variable {
	build := job.BuildEnvironment(work, source)
	if parsed, err := version.ParseGeneric(work.KubeVersion); err == nil {
		build["KUBE_VERSION"] = parsed.String()
	}
	build["KUBE_API_VERSIONS"] = strings.Join(work.APIVersions, ",")
	var all []Variable
	for _, name := range slices.Sorted(maps.Keys(build)) {
		all = append(all, Variable{name, build[name]})
	}
	if options == nil {
		return all
	}
	for _, entry := range options.Env {
		value := os.Expand(entry.Value, func(name string) string {
			if name == "$" {
				return "$"
			}
			return build[name]
		})
		all = append(all, Variable{"ARGOCD_ENV_" + entry.Name, value})
	}
	return append(all, parameterVariables(options.Parameters)...)
}

// parameterVariables are the parameters as JSON, and each on its own.
func parameterVariables(parameters []v1alpha1.ApplicationSourcePluginParameter) []Variable {
	text, _ := json.Marshal(parameters) // it is text, lists and maps of text
	all := []Variable{{"ARGOCD_APP_PARAMETERS", string(text)}}
	for _, one := range parameters {
		name := "PARAM_" + escape(one.Name)
		if one.String != nil {
			all = append(all, Variable{name, *one.String})
		}
		for _, key := range slices.Sorted(maps.Keys(one.Map)) {
			all = append(all, Variable{name + "_" + escape(key), one.Map[key]})
		}
		for i, value := range one.Array {
			all = append(all, Variable{fmt.Sprintf("%s_%d", name, i), value})
		}
	}
	return all
}

// notInName are characters that the name of a variable does not have.
var notInName = regexp.MustCompile("[^A-Z0-9_]")

// escape is the name of a parameter as a part of that of a variable.
func escape(name string) string { return notInName.ReplaceAllString(strings.ToUpper(name), "_") }

// Output is what a plugin generated, as the files of a dependency.
func Output(text []byte) tree.Store {
	return tree.NewMemory(map[string]string{job.PluginFile: string(text)})
}
