package sharedrepo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// clusterAnnotation marks the file of a managed cluster and has its name. Files
// without it are those of users, and are never removed.
const clusterAnnotation = "slipway.dev/cluster"

// managedNamespace is the namespace of manifests without one in a managed
// cluster: that of the runtime need not exist there.
const managedNamespace = "default"

// maxClusterName bounds the part of a cluster's name in the name of its
// Application, which with that of a runtime has to fit a label.
const maxClusterName = 24

// clusterID returns the name of a cluster in names of files and Applications.
// Argo CD allows any name, also an address; one that is no name of Kubernetes,
// or that of another file or Application of the runtime, gets a hash.
func clusterID(name string) string {
	reserved := slices.Contains([]string{"in-cluster", "runtime", "shared"}, name)
	if len(validation.IsDNS1123Label(name)) == 0 && len(name) <= maxClusterName && !reserved {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	plain = strings.Trim(plain[:min(len(plain), maxClusterName-9)], "-")
	return strings.TrimPrefix(plain+"-"+hex.EncodeToString(hash[:4]), "-")
}

// managed is the Application of a managed cluster: the resources of all
// clusters, and of the clusters of this runtime.
func managed(location Location, runtime, name, server string) Manifest {
	return Manifest{
		Name: runtime + "-" + clusterID(name), Runtime: runtime, Entity: EntityConfig, Internal: true,
		Annotations: map[string]string{clusterAnnotation: name},
		Source: sourceAt(location, resourcesFolder, map[string]any{
			"recurse": true, "include": fmt.Sprintf("{all-runtimes-all-clusters/*,runtimes/%s/*}", runtime),
		}),
		Destination: Destination{Server: server, Namespace: managedNamespace},
	}
}

// WriteClusters writes a file for each managed cluster of a runtime, given as
// addresses by name, and removes those of clusters that are gone. It returns
// the commit, or the newest one if nothing changed.
func (r *Repository) WriteClusters(ctx context.Context, runtime string, clusters map[string]string) (string, error) {
	return r.Change(ctx, "runtime "+runtime+": managed clusters", Writer{Author: r.options.Committer}, func(files Files) error {
		wanted := map[string]Manifest{}
		for name, server := range clusters {
			wanted[ClusterFile(runtime, clusterID(name))] = managed(r.options.Location, runtime, name, server)
		}
		found, err := files.List(RuntimeFolder(runtime))
		if err != nil {
			return err
		}
		// Files of users stay, also one with the name of a cluster.
		for _, name := range found {
			text, _, err := files.Read(name)
			if err != nil {
				return err
			}
			if _, keep := wanted[name]; !isClusterFile(text) {
				delete(wanted, name)
			} else if !keep {
				if err := files.Remove(name); err != nil {
					return err
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if err := seedManifest(files, name, wanted[name], "destination.server"); err != nil {
				return err
			}
		}
		return nil
	})
}

// isClusterFile reports whether a file is that of a managed cluster.
func isClusterFile(text []byte) bool {
	var object struct {
		Metadata struct{ Annotations map[string]string }
	}
	return yaml.Unmarshal(text, &object) == nil && object.Metadata.Annotations[clusterAnnotation] != ""
}
