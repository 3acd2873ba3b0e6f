package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// maxKustomizations bounds how many of them are one build. A build over the
// bound is refused, because a cycle of links would otherwise be read for ever.
const maxKustomizations = 1000

// scanner reads every kustomization that can be reached, before Kustomize does.
// Kustomize fetches what looks like an address while it builds, so that nothing
// that does may be left when it begins. A scanner serves one render and is not
// safe for concurrent use.
type scanner struct {
	disk *fileSystem
	// job, options and into are for charts.
	job     *job.Job
	options v1alpha1.ApplicationSourceKustomize
	into    *manifest.Set
	seen    map[string]bool
	// openapi: a kustomization brings a schema.
	openapi bool
	// missing are repositories that the job does not have.
	missing []job.MissingDependency
}

// folder reads the kustomization of a folder. One that is not there is left to
// Kustomize to complain about.
func (s *scanner) folder(folder string) error {
	// Bases are shared by overlays, and links can form a cycle.
	if s.seen[folder] {
		return nil
	}
	s.seen[folder] = true
	if len(s.seen) > maxKustomizations {
		return refusal.New("", refusal.TooMany, "the kustomization is made of more than %d folders, or of links that lead in a circle", maxKustomizations)
	}
	// All recognised names are read, although Kustomize fails if there are
	// several: a file that is not checked must never be built.
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(folder, name)
		text, err := s.disk.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var parsed types.Kustomization
		if err := unmarshal(&parsed, text); err != nil {
			return fmt.Errorf("%s: %s", s.disk.shown(file), job.Shorten(err.Error()))
		}
		edited, err := s.kustomization(folder, s.disk.shown(file), &parsed)
		if err != nil {
			return err
		}
		if !edited {
			continue
		}
		if s.disk.edited[local(file)], err = yaml.Marshal(parsed); err != nil {
			return err
		}
	}
	return nil
}

// unmarshal reads a kustomization as Kustomize does, which panics on some
// input. FixKustomization moves bases, env and the old Helm fields to their
// successors, so that the scan covers them there.
func unmarshal(into *types.Kustomization, text []byte) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("it cannot be read: %v", reason)
		}
	}()
	if err := into.Unmarshal(text); err != nil {
		return err
	}
	into.FixKustomization()
	return nil
}

// field is a field of a kustomization that names files.
type field struct {
	name    string
	entries []string
}

// kustomization checks every field that can name a file, an address or a
// program, and follows resources, components and plugins. What is of elsewhere
// becomes a path; it reports whether there is such an entry. The file is for
// messages.
func (s *scanner) kustomization(folder, file string, parsed *types.Kustomization) (edited bool, err error) {
	hasCharts, err := s.charts(folder, file, parsed)
	if err != nil {
		return false, err
	}
	// The schema is global state of the library, see Render.
	if len(parsed.OpenAPI) > 0 {
		s.openapi = true
	}
	for _, field := range plainFields(parsed) {
		for _, entry := range field.entries {
			if err := checkEntry(folder, file, field.name, entry); err != nil {
				return false, err
			}
		}
	}
	hasBases, err := s.references(folder, file, parsed)
	if err != nil {
		return false, err
	}
	for _, field := range []field{{"generators", parsed.Generators}, {"transformers", parsed.Transformers}, {"validators", parsed.Validators}} {
		for _, entry := range field.entries {
			if err := s.plugin(folder, file, field.name, entry); err != nil {
				return false, err
			}
		}
	}
	return hasCharts || hasBases, nil
}

// references checks resources and components, and follows them. It reports
// whether one of them is in another repository.
func (s *scanner) references(folder, file string, parsed *types.Kustomization) (hasBases bool, err error) {
	for _, field := range []field{{"resources", parsed.Resources}, {"components", parsed.Components}} {
		for i, entry := range field.entries {
			wanted, isBase := parseBase(entry)
			if !isBase {
				if err := s.reference(folder, file, field.name, entry); err != nil {
					return false, err
				}
				continue
			}
			// The entries are those of parsed.
			if err := s.base(folder, file, field.name, &field.entries[i], wanted); err != nil {
				return false, err
			}
			hasBases = true
		}
	}
	return hasBases, nil
}

// plainFields are those that name files, and nothing that has files in turn.
func plainFields(parsed *types.Kustomization) []field {
	fields := []field{
		{"crds", parsed.Crds},
		{"configurations", parsed.Configurations},
		{"openapi.path", []string{parsed.OpenAPI["path"]}},
	}
	//lint:ignore SA1019 kustomizations have it, whether it is deprecated or not
	for _, patch := range slices.Concat(parsed.Patches, parsed.PatchesJson6902) {
		fields = append(fields, field{"patches.path", []string{patch.Path}})
	}
	//lint:ignore SA1019 kustomizations have it, whether it is deprecated or not
	for _, patch := range parsed.PatchesStrategicMerge {
		fields = append(fields, field{"patchesStrategicMerge", []string{string(patch)}})
	}
	for _, replacement := range parsed.Replacements {
		fields = append(fields, field{"replacements.path", []string{replacement.Path}})
	}
	for _, generator := range parsed.ConfigMapGenerator {
		fields = append(fields, sourceFields("configMapGenerator", &generator.KvPairSources)...)
	}
	for _, generator := range parsed.SecretGenerator {
		fields = append(fields, sourceFields("secretGenerator", &generator.KvPairSources)...)
	}
	return fields
}

// sourceFields are the files of a generator, as [key=]path.
func sourceFields(name string, sources *types.KvPairSources) []field {
	files := field{name: name + ".files"}
	for _, entry := range sources.FileSources {
		if _, file, ok := strings.Cut(entry, "="); ok {
			entry = file
		}
		files.entries = append(files.entries, entry)
	}
	envs := field{name: name + ".envs", entries: append([]string{sources.EnvSource}, sources.EnvSources...)}
	return []field{files, envs}
}

// reference checks an entry that is a file or another kustomization, and reads
// the kustomization.
func (s *scanner) reference(folder, file, name, entry string) error {
	if err := checkEntry(folder, file, name, entry); err != nil {
		return err
	}
	at := path.Join(folder, entry)
	kind, err := s.disk.stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %s: %q does not exist", file, name, entry)
	case err != nil:
		return err
	case kind.Kind == tree.Folder:
		return s.folder(local(at))
	}
	return nil
}

// plugin checks an entry that configures a generator or a transformer: a text,
// a file or a kustomization. The text comes first, as in Kustomize: an entry
// that parses as objects is never used as a path.
func (s *scanner) plugin(folder, file, name, entry string) error {
	if hasRemotePrefix(entry) {
		return remoteRefusal(file, name, entry)
	}
	if configs, err := configurations([]byte(entry)); err == nil && len(configs) > 0 {
		return checkPlugins(file, name, configs)
	}
	if err := s.reference(folder, file, name, entry); err != nil {
		return err
	}
	at := path.Join(folder, entry)
	if s.disk.IsDir(at) {
		return nil
	}
	text, err := s.disk.ReadFile(at)
	if err != nil {
		return err
	}
	configs, err := configurations(text)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.disk.shown(at), name, err)
	}
	return checkPlugins(s.disk.shown(at), name, configs)
}

// configurations reads the objects of a text. A text that is no YAML of objects
// is an error: a plugin that cannot be read here must not be left to Kustomize.
func configurations(text []byte) ([]map[string]any, error) {
	documents, err := manifest.SplitYAML(text)
	if err != nil {
		return nil, err
	}
	var found []map[string]any
	for _, document := range documents {
		var config map[string]any
		if err := yaml.Unmarshal(document, &config); err != nil {
			return found, err
		}
		if len(config) > 0 {
			found = append(found, config)
		}
	}
	return found, nil
}

// checkPlugins refuses everything but what is built into Kustomize. Kustomize's
// default options refuse them too; this check does not rely on defaults of a
// library, and its message has the way out.
func checkPlugins(file, name string, configs []map[string]any) error {
	for _, config := range configs {
		kind, _ := config["kind"].(string)
		if version, _ := config["apiVersion"].(string); version != "builtin" {
			return refusal.New(file, refusal.Unsupported, "%s: %s is a plugin, which would be run as a program: only built-in ones, of apiVersion builtin, can be used", name, kind)
		}
		if strings.HasPrefix(kind, "HelmChart") {
			return refusal.New(file, refusal.Unsupported, "%s: %s would run the program helm: make the chart a source of its own, or commit what it renders", name, kind)
		}
		metadata, _ := config["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		// Functions are declared by annotation, also on kinds that look built
		// in.
		for _, annotation := range []string{"config.kubernetes.io/function", "config.k8s.io/function"} {
			if _, ok := annotations[annotation]; ok {
				return refusal.New(file, refusal.Unsupported, "%s: %s is a function, which would be run as a program or a container: it cannot be used", name, kind)
			}
		}
		if remote := remoteIn(config); remote != "" {
			return remoteRefusal(file, name+" "+kind, remote)
		}
	}
	return nil
}

// remoteIn finds a text that begins like an address, anywhere in a
// configuration. Only keys that name files are followed: an address in a
// literal, such as a URL in a ConfigMap, is content.
func remoteIn(value any) string {
	switch value := value.(type) {
	case string:
		if hasRemotePrefix(value) {
			return value
		}
	case []any:
		for _, element := range value {
			if found := remoteIn(element); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, key := range []string{"path", "paths", "files", "envs", "env", "replacements", "configurations", "resources"} {
			if found := remoteIn(value[key]); found != "" {
				return found
			}
		}
	}
	return ""
}

// checkEntry refuses an entry that is not a path of the repository.
func checkEntry(folder, file, name, entry string) error {
	if strings.Contains(entry, "\n") && !hasRemotePrefix(entry) {
		return nil // a patch that is written out
	}
	switch {
	case entry == "":
		return nil
	case looksRemote(entry):
		return remoteRefusal(file, name, entry)
	case strings.HasPrefix(entry, "/"):
		return refusal.New(file, refusal.NotAllowed, "%s: %q is an absolute path: use one from the folder of the kustomization", name, short(entry))
	}
	if at := path.Join(folder, entry); at == ".." || strings.HasPrefix(at, "../") || rootOf(at) != rootOf(folder) {
		return refusal.New(file, refusal.NotAllowed, "%s: %q leaves the repository", name, short(entry))
	}
	return nil
}

// remoteRefusal is the refusal of an address.
func remoteRefusal(file, name, entry string) error {
	return refusal.New(file, refusal.NotAllowed, "%s: %q is not in the repository, and nothing is fetched while rendering: "+
		"copy it into the repository, or make it a source of its own", name, short(entry))
}

// userAt is how an address as user@host:path begins.
var userAt = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@`)

// hasRemotePrefix reports whether a text starts like an address, by Kustomize's
// own rules. The prefix git:: is stripped as often as it is there, and not once
// as in Kustomize, so that git::git::https: does not pass.
func hasRemotePrefix(entry string) bool {
	lower := strings.ToLower(strings.TrimSpace(entry))
	for strings.HasPrefix(lower, "git::") {
		lower = strings.TrimPrefix(lower, "git::")
	}
	for _, prefix := range []string{"http:", "https:", "ssh:", "git:", "file:", "github.com/", "github.com:", "gh:", "oci:", "s3:"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return userAt.MatchString(lower)
}

// looksRemote covers more than Kustomize fetches: such a text is meant as an
// address, and an error about a missing file would mislead. False positives are
// accepted: a refusal names the entry, and a rename resolves it.
func looksRemote(entry string) bool {
	return hasRemotePrefix(entry) || strings.Contains(entry, "://") || strings.ContainsAny(entry, "?\x00") ||
		strings.Contains(entry, "_git/") || strings.Contains(entry, ".git/") || strings.HasSuffix(entry, ".git")
}

// short bounds an entry for messages.
func short(entry string) string {
	if len(entry) > 200 {
		return entry[:200] + "..."
	}
	return entry
}
