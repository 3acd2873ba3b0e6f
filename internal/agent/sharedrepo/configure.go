package sharedrepo

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// ChartName is the chart that installs runtimes.
const ChartName = "gitops-runtime"

// Chart is the chart that the runtime is installed from.
type Chart struct {
	// Repository is the source of the chart: oci://... or https://...
	Repository string
	Version    string
	// Release is the name of the Helm release. It is part of the selectors of
	// its objects, so that the Application must keep it; empty is the name of
	// the Application.
	Release string
	// Values are those of the installation. Secrets in them are left out.
	Values map[string]any
	// Archive is the packed chart. It is committed too, because the renderer
	// fetches no dependencies. Without it a user has to run helm dependency
	// build.
	Archive []byte
}

// Configure makes the runtime manage itself (R71): it commits a chart that
// depends on the runtime's, its values without secrets, and an Application. It
// is idempotent: the version that is in Git stays (R110).
func (h *Controller) Configure(ctx context.Context) (application, commit string, err error) {
	if h.options.Chart == nil {
		return "", "", NotReady("this runtime does not know which chart it is installed from: install it with Helm to configure it as an Application")
	}
	repository, err := h.Repository(ctx)
	if err != nil {
		return "", "", err
	}
	if err := h.Ensure(ctx); err != nil {
		return "", "", err
	}
	chart, err := h.options.Chart(ctx)
	if err != nil {
		return "", "", fmt.Errorf("find the chart of the runtime: %w", err)
	}
	runtime := h.options.Runtime
	written, err := chart.files(runtime)
	if err != nil {
		return "", "", err
	}
	source := sourceAt(repository.Location(), ChartFolder(runtime), nil)
	if chart.Release != "" {
		source["helm"] = map[string]any{"releaseName": chart.Release}
	}
	manifest, err := Manifest{
		Name: runtime, Runtime: runtime, Entity: EntityRuntime, Internal: true,
		Source:      source,
		Destination: Destination{Namespace: h.options.Namespace},
	}.YAML()
	if err != nil {
		return "", "", err
	}
	commit, err = h.Change(ctx, "runtime "+runtime+": configure as an Application", func(files Files) error {
		if _, found, err := files.Read(path.Join(ChartFolder(runtime), "Chart.yaml")); err != nil {
			return err
		} else if !found {
			for _, one := range written {
				if err := files.Write(one.name, one.content); err != nil {
					return err
				}
			}
		}
		return writeIfMissing(files, "", runtimeFile(runtime), manifest)
	})
	return runtime, commit, err
}

// file is a file to write.
type file struct {
	name    string
	content []byte
}

// files returns the files of the chart's folder.
func (c Chart) files(runtime string) ([]file, error) {
	if c.Version == "" || c.Repository == "" {
		return nil, NotReady("the version and the repository of the runtime's chart are not known")
	}
	folder := ChartFolder(runtime)
	chart, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": runtime, "version": c.Version, "type": "application",
		"description":  "The Slipway runtime " + runtime,
		"dependencies": []map[string]any{{"name": ChartName, "version": c.Version, "repository": c.Repository}},
	})
	if err != nil {
		return nil, err
	}
	values, left := withoutInstalledCredentials(WithoutSecrets(c.Values))
	text, err := yaml.Marshal(map[string]any{ChartName: values})
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		head := "# Secrets are not kept in Git. Left out: " + strings.Join(left, ", ") + "\n"
		text = append([]byte(head), text...)
	}
	all := []file{{path.Join(folder, "Chart.yaml"), chart}, {path.Join(folder, "values.yaml"), text}}
	if len(c.Archive) > 0 {
		all = append(all, file{path.Join(folder, "charts", ChartName+"-"+c.Version+".tgz"), c.Archive})
	}
	return all, nil
}

// withoutInstalledCredentials leaves the whole block of Git credentials out
// if its token was: the chart refuses a block without a token, and the runtime
// keeps the credential in a Secret that is no part of the chart.
func withoutInstalledCredentials(values map[string]any, left []string) (map[string]any, []string) {
	block := []string{"global", "runtime", "gitCredentials"}
	name := strings.Join(block, ".")
	if i := slices.Index(left, name+".password.value"); i >= 0 {
		unstructured.RemoveNestedField(values, block...)
		left[i] = name
	}
	return values, left
}

// WithoutSecrets copies values without texts whose keys are those of secrets,
// and returns the paths that it left out. References to Secrets stay.
func WithoutSecrets(values map[string]any) (kept map[string]any, left []string) {
	kept = withoutSecrets(values, "", &left)
	slices.Sort(left)
	return kept, left
}

// withoutSecrets copies one level of values. at is its path.
func withoutSecrets(values map[string]any, at string, left *[]string) map[string]any {
	kept := make(map[string]any, len(values))
	for key, value := range values {
		where := strings.TrimPrefix(at+"."+key, ".")
		if cleaned, keep := cleanValue(value, where, left); keep {
			kept[key] = cleaned
		}
	}
	return kept
}

// cleanValue copies a value. It returns false for a secret.
func cleanValue(value any, where string, left *[]string) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		return withoutSecrets(value, where, left), true
	case []any:
		kept := make([]any, 0, len(value))
		for i, one := range value {
			if cleaned, keep := cleanValue(one, fmt.Sprintf("%s[%d]", where, i), left); keep {
				kept = append(kept, cleaned)
			}
		}
		return kept, true
	case string:
		if value != "" && secretPath(where) {
			*left = append(*left, where)
			return nil, false
		}
	}
	return value, true
}

// secretPath reports whether the value at a path is a secret: by its last key,
// or by the one before for keys such as password.value. Values below
// secretKeyRef are names.
func secretPath(where string) bool {
	parts := strings.Split(strings.ToLower(where), ".")
	last := parts[len(parts)-1]
	for _, part := range parts {
		if strings.HasSuffix(part, "secretkeyref") || strings.HasSuffix(part, "secretname") || strings.HasSuffix(part, "existingsecret") {
			return false
		}
	}
	if (last == "value" || last == "content" || last == "data") && len(parts) > 1 {
		last = parts[len(parts)-2]
	}
	return slices.ContainsFunc([]string{"token", "password", "passwd", "secret", "privatekey", "apikey", "credential", "sshkey", "key.pem"},
		func(word string) bool { return strings.Contains(last, word) })
}
