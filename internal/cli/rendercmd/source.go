package rendercmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// sourceFlags are the flags for the options of an Application's source. They
// have the names of the fields in the Application, with a prefix.
type sourceFlags struct {
	helm      helmFlags
	kustomize v1alpha1.ApplicationSourceKustomize
	// labels and notes become the common labels and annotations of kustomize.
	labels    map[string]string
	notes     map[string]string
	directory v1alpha1.ApplicationSourceDirectory
	// The variables of Jsonnet, as name=value.
	extVars []string
	tlas    []string
	libs    []string
}

// helmFlags are the flags for a chart.
type helmFlags struct {
	valueFiles []string
	// set, setString and files are name=value pairs, in the order of the
	// command line; files names files in the repository.
	set, setString, files []string
	releaseName           string
	skipCrds, skipTests   bool
	skipSchema            bool
}

// add adds the flags. Their prefix names the kind of source that they apply to.
func (s *sourceFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&s.helm.valueFiles, "helm-values", nil, "values file, relative to the chart; may be repeated")
	flags.StringArrayVar(&s.helm.set, "helm-set", nil, "single value, as name=value; may be repeated")
	flags.StringArrayVar(&s.helm.setString, "helm-set-string", nil, "single string value, as name=value; may be repeated")
	flags.StringArrayVar(&s.helm.files, "helm-set-file", nil, "single value that is read from a file, as name=file; may be repeated")
	flags.StringVar(&s.helm.releaseName, "helm-release-name", "", "name of the release")
	flags.BoolVar(&s.helm.skipCrds, "helm-skip-crds", false, "skip the crds directory of the chart")
	flags.BoolVar(&s.helm.skipTests, "helm-skip-tests", false, "skip the tests of the chart")
	flags.BoolVar(&s.helm.skipSchema, "helm-skip-schema-validation", false, "do not check values against values.schema.json of the chart")
	flags.StringVar(&s.kustomize.NamePrefix, "kustomize-name-prefix", "", "prefix of the names of all objects")
	flags.StringVar(&s.kustomize.NameSuffix, "kustomize-name-suffix", "", "suffix of the names of all objects")
	flags.StringVar(&s.kustomize.Namespace, "kustomize-namespace", "", "namespace of all objects")
	flags.StringArrayVar(&s.kustomize.Images, "kustomize-image", nil, "image override, as [name=]image:tag; may be repeated")
	flags.StringArrayVar(&s.kustomize.Components, "kustomize-component", nil, "directory of a component to add; may be repeated")
	flags.StringToStringVar(&s.labels, "kustomize-label", nil, "label for all objects, as name=value; may be repeated")
	flags.StringToStringVar(&s.notes, "kustomize-annotation", nil, "annotation for all objects, as name=value; may be repeated")
	flags.BoolVar(&s.directory.Recurse, "directory-recurse", false, "read subdirectories too")
	flags.StringVar(&s.directory.Include, "directory-include", "", "glob pattern of the files to read")
	flags.StringVar(&s.directory.Exclude, "directory-exclude", "", "glob pattern of the files to exclude")
	flags.StringArrayVar(&s.extVars, "jsonnet-ext-var", nil, "external variable, as name=value; may be repeated")
	flags.StringArrayVar(&s.tlas, "jsonnet-tla", nil, "top-level argument, as name=value; may be repeated")
	flags.StringArrayVar(&s.libs, "jsonnet-lib", nil, "directory that is searched for imports; may be repeated")
}

// given reports whether any flag is set, also one with an error. A value that
// does not parse counts as given, so that it is not ignored.
func (s *sourceFlags) given() bool {
	made, err := s.source()
	return err != nil || made.Helm != nil || made.Kustomize != nil || made.Directory != nil
}

// source builds the source. Kinds without flags stay nil, so that the renderer
// detects the kind from the files of the folder. Flags of two kinds are an
// error.
func (s *sourceFlags) source() (v1alpha1.ApplicationSource, error) {
	var made v1alpha1.ApplicationSource
	var err error
	if made.Helm, err = s.helm.options(); err != nil {
		return made, err
	}
	// Copies keep the result independent of the flags: source runs more than
	// once.
	kustomize := s.kustomize
	kustomize.CommonLabels, kustomize.CommonAnnotations = s.labels, s.notes
	if kustomize.NamePrefix != "" || kustomize.NameSuffix != "" || kustomize.Namespace != "" ||
		len(kustomize.Images)+len(kustomize.Components)+len(s.labels)+len(s.notes) > 0 {
		made.Kustomize = &kustomize
	}
	directory := s.directory
	if directory.Jsonnet, err = s.jsonnet(); err != nil {
		return made, err
	}
	if directory.Recurse || directory.Include != "" || directory.Exclude != "" || directory.Jsonnet != nil {
		made.Directory = &directory
	}
	// The kinds exclude each other, as a folder is rendered as one of them.
	kinds := 0
	for _, set := range []bool{made.Helm != nil, made.Kustomize != nil, made.Directory != nil} {
		if set {
			kinds++
		}
	}
	if kinds > 1 {
		return made, errors.New("options of Helm, Kustomize and folders do not go together: choose one of --helm-…, --kustomize-…, and --directory-… with --jsonnet-…")
	}
	return made, nil
}

// options builds the options of a chart, or nil without any flag. nil lets the
// renderer detect the kind of the folder.
func (h *helmFlags) options() (*v1alpha1.ApplicationSourceHelm, error) {
	made := &v1alpha1.ApplicationSourceHelm{
		ValueFiles: h.valueFiles, ReleaseName: h.releaseName, SkipCrds: h.skipCrds, SkipTests: h.skipTests, SkipSchemaValidation: h.skipSchema,
	}
	// Parameters of --helm-set come before those of --helm-set-string,
	// independent of their order on the command line.
	for _, list := range []struct {
		flag   string
		values []string
		take   func(name, value string)
	}{
		{"helm-set", h.set, func(name, value string) {
			made.Parameters = append(made.Parameters, v1alpha1.HelmParameter{Name: name, Value: value})
		}},
		{"helm-set-string", h.setString, func(name, value string) {
			made.Parameters = append(made.Parameters, v1alpha1.HelmParameter{Name: name, Value: value, ForceString: true})
		}},
		{"helm-set-file", h.files, func(name, value string) {
			made.FileParameters = append(made.FileParameters, v1alpha1.HelmFileParameter{Name: name, Path: value})
		}},
	} {
		if err := eachPair(list.flag, list.values, list.take); err != nil {
			return nil, err
		}
	}
	// The struct has slices and cannot be compared with its zero value.
	if len(made.ValueFiles)+len(made.Parameters)+len(made.FileParameters) == 0 && made.ReleaseName == "" && !made.SkipCrds && !made.SkipTests && !made.SkipSchemaValidation {
		return nil, nil
	}
	return made, nil
}

// jsonnet builds the options of Jsonnet, or nil without any flag. Libs are
// folders in the repository.
func (s *sourceFlags) jsonnet() (*v1alpha1.ApplicationSourceJsonnet, error) {
	made := &v1alpha1.ApplicationSourceJsonnet{Libs: s.libs}
	// Both flags are parsed, so that one run reports the errors of both.
	err := errors.Join(
		eachPair("jsonnet-ext-var", s.extVars, func(name, value string) {
			made.ExtVars = append(made.ExtVars, v1alpha1.JsonnetVar{Name: name, Value: value})
		}),
		eachPair("jsonnet-tla", s.tlas, func(name, value string) {
			made.TLAs = append(made.TLAs, v1alpha1.JsonnetVar{Name: name, Value: value})
		}),
	)
	if err != nil || len(made.ExtVars)+len(made.TLAs)+len(made.Libs) == 0 {
		return nil, err
	}
	return made, nil
}

// eachPair parses texts of the form name=value and calls take for each. A value
// may contain further equal signs, and may be empty.
func eachPair(flag string, texts []string, take func(name, value string)) error {
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return fmt.Errorf("--%s %q is not of the form name=value", flag, text)
		}
		take(name, value)
	}
	return nil
}
