package argosetting

import "strings"

// The settings of options of "kustomize build", by their names.
const (
	noPrograms = "plugins and functions are programs, which are not run: commit what they generate, or use a config management plugin"
	confined   = "a kustomization reads files of its own folder and below: make the others a base or a component"
)

// buildOptions has the options that "kustomize build" has.
var buildOptions = map[string]Setting{
	"enable-helm":            {Effect: Same}, // helmCharts are always rendered
	"load-restrictor":        {Differs, confined},
	"reorder":                {NoEffect, "objects are applied by phase, wave and kind"},
	"output":                 {NoEffect, "manifests are not written to files"},
	"stack-trace":            {NoEffect, "errors have no stack"},
	"helm-command":           {NoEffect, "the program helm is not run"},
	"helm-debug":             {NoEffect, "the program helm is not run"},
	"helm-kube-version":      {Differs, "write kustomize.kubeVersion into the sources"},
	"helm-api-versions":      {Differs, "write kustomize.apiVersions into the sources"},
	"enable-managedby-label": {Differs, "write the label into labels of the kustomizations"},
	"enable-alpha-plugins":   {Differs, noPrograms},
	"enable-exec":            {Differs, noPrograms},
	"enable-star":            {Differs, noPrograms},
	"network":                {Differs, noPrograms},
	"network-name":           {Differs, noPrograms},
	"mount":                  {Differs, noPrograms},
	"env":                    {Differs, noPrograms},
	"as-current-user":        {Differs, noPrograms},
}

// withValue are the options whose value may be the next word, and the short names
// of options.
var (
	withValue = map[string]bool{"load-restrictor": true, "reorder": true, "output": true, "helm-command": true, "helm-kube-version": true,
		"helm-api-versions": true, "network-name": true, "mount": true, "env": true}
	shortNames = map[string]string{"o": "output", "e": "env"}
)

// kustomizeOptions is what becomes of kustomize.buildOptions. Its text names each
// option that is not carried out, and its effect is the worst of them.
func kustomizeOptions(value string) Setting {
	result := Setting{Effect: Same}
	var texts []string
	words := strings.Fields(value)
	for len(words) > 0 {
		name, given, hasValue := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
		isOption := strings.HasPrefix(words[0], "-")
		words = words[1:]
		// Kustomize had its options with underscores once.
		name = strings.ReplaceAll(name, "_", "-")
		if long, isShort := shortNames[name]; isShort {
			name = long
		}
		if withValue[name] && !hasValue && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
			given, words = words[0], words[1:]
		}
		one, known := buildOptions[name]
		switch {
		case !isOption || !known:
			one = Setting{Differs, "kustomize build has no such option: look for a misspelling, or remove it"}
		case given == "false", name == "load-restrictor" && (given == "LoadRestrictionsRootOnly" || given == "rootOnly"):
			continue
		}
		if one.Effect == Same {
			continue
		}
		texts = append(texts, "--"+name+": "+one.Text)
		if one.Effect == Differs || result.Effect == Same {
			result.Effect = one.Effect
		}
	}
	result.Text = strings.Join(texts, "; ")
	return result
}
