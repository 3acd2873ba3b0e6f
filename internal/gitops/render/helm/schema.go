package helm

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// schemaURL is the address that Helm gives values.schema.json. Relative
// references in the schema are resolved against it, so that "schemas/a.json" is
// the file schemas/a.json of the chart.
const schemaURL = "file:///values.schema.json"

// checkValues validates the values of a chart, and of its dependencies, against
// their schemas. It replaces Helm's own check, which fetches references from
// the network and opens files of the machine: this one reads the files of the
// chart and nothing else.
func checkValues(loaded *chart.Chart, values map[string]any) error {
	var problems strings.Builder
	if err := checkChart(loaded, values, &problems); err != nil {
		return err
	}
	if problems.Len() > 0 {
		return errors.New(job.Shorten("values don't meet the specifications of the schema(s) in the following chart(s):\n" + problems.String()))
	}
	return nil
}

// checkChart writes what is wrong with the values of one chart and of those
// below it, as Helm words it. An error means that a schema cannot be used.
func checkChart(loaded *chart.Chart, values map[string]any, problems *strings.Builder) error {
	if loaded.Schema != nil {
		problem, err := validate(loaded, values)
		if err != nil {
			return err
		}
		if problem != "" {
			fmt.Fprintf(problems, "%s:\n%s\n", loaded.Name(), problem)
		}
	}
	for _, dependency := range loaded.Dependencies() {
		given := values[dependency.Name()]
		if given == nil {
			continue // as in Helm: without values there is nothing to check
		}
		below, ok := given.(map[string]any)
		if !ok {
			fmt.Fprintf(problems, "%s:\ninvalid type for values: expected object (map), got %T\n", dependency.Name(), given)
			continue
		}
		if err := checkChart(dependency, below, problems); err != nil {
			return err
		}
	}
	return nil
}

// validate returns how values break the schema of a chart. An error means that
// the schema cannot be used. The library panics on some schemas. The compiler
// gets a loader of its own for each chart, so that a reference cannot reach the
// files of another chart.
func validate(loaded *chart.Chart, values map[string]any) (problem string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("values.schema.json of the chart %s cannot be used: %v", loaded.Name(), reason)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(loaded.Schema))
	if err != nil {
		return "", fmt.Errorf("values.schema.json of the chart %s is not JSON: %w", loaded.Name(), err)
	}
	files := &schemaFiles{chart: loaded}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(files)
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return "", err
	}
	schema, err := compiler.Compile(schemaURL)
	switch {
	case files.refused != nil:
		return "", files.refused
	case err != nil:
		return "", fmt.Errorf("values.schema.json of the chart %s cannot be used: %s", loaded.Name(), job.Shorten(err.Error()))
	}
	if err := schema.Validate(values); err != nil {
		problem = strings.TrimPrefix(err.Error(), "jsonschema validation failed with '"+schemaURL+"#'\n")
	}
	return problem, nil
}

// schemaFiles loads what a schema refers to.
type schemaFiles struct {
	chart *chart.Chart
	// refused is the first reference that is not followed. The library turns
	// errors into text, and the kind of the error would be lost.
	refused error
}

// Load returns the document at an address: a file of the chart. An urn is a
// schema that allows everything, as in Helm. All other addresses are refused.
func (f *schemaFiles) Load(address string) (any, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	switch {
	case parsed.Scheme == "urn":
		return true, nil
	case parsed.Scheme != "file" || parsed.Host != "":
		return nil, f.refuse("refers to %s: nothing is fetched while rendering; "+
			"copy the schema into the chart, or set helm.skipSchemaValidation: true", address)
	}
	// Clean removes "..", so that a name is always within the chart.
	name := strings.TrimPrefix(path.Clean(parsed.Path), "/")
	for _, file := range f.chart.Raw {
		if file.Name == name {
			return jsonschema.UnmarshalJSON(bytes.NewReader(file.Data))
		}
	}
	return nil, f.refuse("refers to %s, which is not a file of the chart: "+
		"add it to the chart, or set helm.skipSchemaValidation: true", name)
}

// refuse keeps the first refusal and returns it to the library.
func (f *schemaFiles) refuse(format string, args ...any) error {
	err := refusal.New("", refusal.NotAllowed, "values.schema.json of the chart %s %s", f.chart.Name(), fmt.Sprintf(format, args...))
	if f.refused == nil {
		f.refused = err
	}
	return err
}
