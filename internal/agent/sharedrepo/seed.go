package sharedrepo

import (
	"context"
	_ "embed" // the text of README.md
	"fmt"
	"path"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed readme.md
var readme []byte

// readmeFile explains the layout to users.
const readmeFile = "README.md"

// Seed creates the layout and the runtime's own files. Existing files stay,
// except for the addresses in the runtime's own Application: a runtime that is
// installed again finds all it had (R117), also when the repository moved.
func (r *Repository) Seed(ctx context.Context, runtime, namespace string) (string, error) {
	if err := CheckRuntime(runtime); err != nil {
		return "", err
	}
	return r.Change(ctx, "runtime "+runtime+": prepare the repository", Writer{Author: r.options.Committer}, func(files Files) error {
		for _, folder := range sharedFolders() {
			if err := writeIfMissing(files, path.Join(resourcesFolder, folder), ".gitkeep", nil); err != nil {
				return err
			}
		}
		if err := writeIfMissing(files, "", readmeFile, readme); err != nil {
			return err
		}
		return seedManifest(files, inClusterFile(runtime), inCluster(r.options.Location, runtime, namespace), "destination.namespace")
	})
}

// writeIfMissing writes a file unless it exists, or a .gitkeep unless the
// folder has any file.
func writeIfMissing(files Files, folder, name string, content []byte) error {
	if folder != "" {
		found, err := files.List(folder)
		if err != nil || len(found) > 0 {
			return err
		}
	}
	full := path.Join(folder, name)
	_, found, err := files.Read(full)
	if err != nil || found {
		return err
	}
	return files.Write(full, content)
}

// seedManifest writes an Application, or corrects its addresses: that of the
// repository, and a field of the destination.
func seedManifest(files Files, name string, wanted Manifest, destination string) error {
	text, err := wanted.YAML()
	if err != nil {
		return err
	}
	there, found, err := files.Read(name)
	if err != nil {
		return err
	}
	if !found {
		return files.Write(name, text)
	}
	var fresh map[string]any
	if err := yaml.Unmarshal(text, &fresh); err != nil {
		return err
	}
	return editManifest(files, name, there, func(object map[string]any) error {
		for _, field := range []string{"source.repoURL", "source.targetRevision", "source.path", destination} {
			parent, name, _ := strings.Cut(field, ".")
			value := fresh["spec"].(map[string]any)[parent].(map[string]any)[name]
			if err := setField(object, value, "spec", parent, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// EditManifest changes fields of a manifest in the repository, and keeps what
// users added to it.
func EditManifest(f Files, name string, edit func(object map[string]any) error) error {
	text, found, err := f.Read(name)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("there is no %s in the Shared Configuration Repository", name)
	}
	return editManifest(f, name, text, edit)
}

// editManifest writes the manifest only if a field changed, so that comments
// survive.
func editManifest(files Files, name string, text []byte, edit func(object map[string]any) error) error {
	var object, before map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil || object == nil {
		return &PathError{Repository: repositoryName, Path: name, Reason: "is not a manifest in YAML: correct it in Git"}
	}
	if err := yaml.Unmarshal(text, &before); err != nil {
		return err
	}
	if err := edit(object); err != nil {
		return err
	}
	if reflect.DeepEqual(before, object) {
		return nil // comments stay
	}
	changed, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return files.Write(name, changed)
}

// setField sets a field of nested maps, and creates missing ones.
func setField(object map[string]any, value any, fields ...string) error {
	for _, field := range fields[:len(fields)-1] {
		if object[field] == nil {
			object[field] = map[string]any{}
		}
		below, ok := object[field].(map[string]any)
		if !ok {
			return fmt.Errorf("the field %s of a manifest in the Shared Configuration Repository has no fields: correct it in Git", field)
		}
		object = below
	}
	object[fields[len(fields)-1]] = value
	return nil
}

// RemoveRuntime removes the runtime's files. Shared files, and those that users
// wrote for it below resources/runtimes, stay.
func (r *Repository) RemoveRuntime(ctx context.Context, author Author, runtime string) (string, error) {
	if err := CheckRuntime(runtime); err != nil {
		return "", err
	}
	return r.Change(ctx, "runtime "+runtime+": remove", Writer{Author: author}, func(files Files) error {
		for _, folder := range []string{RuntimeFolder(runtime), GitSourceFolder(runtime)} {
			if err := files.Remove(folder); err != nil {
				return err
			}
		}
		return nil
	})
}
