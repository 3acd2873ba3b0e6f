package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// maxNested bounds how far charts depend on each other. A deeper chain, or a
// cycle, is refused.
const maxNested = 8

// chartLoader reads a chart with everything that it depends on.
type chartLoader struct {
	available map[job.Dependency]job.Files
	// missing are charts that the job does not have. Loading goes on, so that
	// they are fetched together.
	missing []job.MissingDependency
}

// chartPlace is where a chart is, and how many charts lead to it.
type chartPlace struct {
	files  job.Files
	folder string
	depth  int
}

// load reads the chart of a request.
func (r *Request) load() (*chart.Chart, error) {
	l := &chartLoader{available: r.Dependencies}
	loaded, err := l.load(r.Files, r.Source.Path, 0)
	if err == nil && len(l.missing) > 0 {
		err = &job.Incomplete{Missing: l.missing}
	}
	return loaded, err
}

// build does what "helm dependency build" does, which Argo CD runs if the folder
// charts lacks a dependency: it adds the charts of the lock file, or those that
// Chart.yaml names if there is none. Nothing is done while all names are there,
// whatever their versions are. Conditions and tags are not considered: they
// depend on values of charts that are not there yet.
func (l *chartLoader) build(at chartPlace, loaded *chart.Chart) error {
	declared := loaded.Metadata.Dependencies
	if !slices.ContainsFunc(declared, func(one *chart.Dependency) bool { return !hasName(loaded.Dependencies(), one.Name) }) {
		return nil
	}
	wanted, err := locked(loaded)
	if err != nil {
		return err
	}
	// Charts of another version than the wanted one are replaced.
	charts := slices.DeleteFunc(slices.Clone(loaded.Dependencies()), func(one *chart.Chart) bool { return isOutdated(one, wanted) })
	for _, one := range wanted {
		// Two aliases of one version are one chart.
		if one == nil || slices.ContainsFunc(charts, func(other *chart.Chart) bool { return fits(other, one) }) {
			continue
		}
		found, err := l.dependency(at, loaded, one)
		if err != nil {
			return err
		}
		if found != nil {
			charts = append(charts, found)
		}
	}
	loaded.SetDependencies(charts...)
	return nil
}

// hasName reports whether one of the charts has a name.
func hasName(charts []*chart.Chart, name string) bool {
	return slices.ContainsFunc(charts, func(one *chart.Chart) bool { return one.Name() == name })
}

// fits reports whether a chart is what a dependency names.
func fits(found *chart.Chart, wanted *chart.Dependency) bool {
	return found.Name() == wanted.Name && chartutil.IsCompatibleRange(wanted.Version, found.Metadata.Version)
}

// isOutdated reports whether a chart has the name of a dependency and a version
// that none of them allows.
func isOutdated(found *chart.Chart, wanted []*chart.Dependency) bool {
	outdated := false
	for _, one := range wanted {
		if one != nil && fits(found, one) {
			return false
		}
		outdated = outdated || one != nil && found.Name() == one.Name
	}
	return outdated
}

// locked is the dependencies at the versions of the lock file, or those of
// Chart.yaml without one. The digest in the lock file is over both, so that a
// lock file of another Chart.yaml is an error, as in Helm.
func locked(loaded *chart.Chart) ([]*chart.Dependency, error) {
	declared := loaded.Metadata.Dependencies
	lock := loaded.Lock
	if lock == nil {
		return declared, nil
	}
	digest, err := digestOf([2][]*chart.Dependency{withAddresses(declared, lock.Dependencies), lock.Dependencies})
	if err == nil && digest != lock.Digest && loaded.Metadata.APIVersion == chart.APIVersionV1 {
		// Helm 2 wrote requirements.lock with a digest of requirements.yaml alone.
		digest, err = digestOf(map[string][]*chart.Dependency{"dependencies": declared})
	}
	if err != nil {
		return nil, err
	}
	if digest != lock.Digest {
		return nil, refusal.New("", refusal.Invalid, "the lock file of the chart %s is out of sync with its dependencies: "+
			"run \"helm dependency update\" and commit the lock file", loaded.Name())
	}
	return lock.Dependencies, nil
}

// withAddresses is dependencies with the addresses of the lock file in place of
// names of repositories, as Helm writes them before it computes the digest.
func withAddresses(declared, locked []*chart.Dependency) []*chart.Dependency {
	resolved := slices.Clone(declared)
	for i, one := range declared {
		if isName(one.Repository) && i < len(locked) && locked[i] != nil {
			copied := *one
			copied.Repository = locked[i].Repository
			resolved[i] = &copied
		}
	}
	return resolved
}

// isName reports whether a repository is named and not addressed.
func isName(repository string) bool {
	return strings.HasPrefix(repository, "@") || strings.HasPrefix(repository, "alias:")
}

// digestOf is a digest as Helm writes it into a lock file.
func digestOf(dependencies any) (string, error) {
	text, err := json.Marshal(dependencies)
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// dependency is one chart that is not in the folder charts; nil if the job does
// not have it.
func (l *chartLoader) dependency(at chartPlace, loaded *chart.Chart, wanted *chart.Dependency) (*chart.Chart, error) {
	by := fmt.Sprintf("the chart %s depends on %s %s", loaded.Name(), wanted.Name, wanted.Version)
	files, folder := at.files, ""
	local, isLocal := strings.CutPrefix(wanted.Repository, "file://")
	switch {
	case wanted.Repository == "":
		return nil, refusal.New("", refusal.NotFound, "%s, which has no repository and is not in its folder charts: add one of them", by)
	case isLocal && strings.HasPrefix(local, "/"):
		return nil, refusal.New("", refusal.NotAllowed, "%s at the absolute path %s: use a path from the chart's folder", by, local)
	case isLocal:
		// The path is not cleaned, because a link in it decides where .. leads.
		folder = strings.TrimPrefix(at.folder+"/"+local, "/")
	default:
		repository := wanted.Repository
		if name, isName := strings.CutPrefix(repository, "alias:"); isName {
			repository = "@" + name
		}
		named := job.Dependency{RepoURL: repository, Chart: wanted.Name, Revision: Revision(wanted.Version)}
		available := false
		if files, available = l.available[named]; !available {
			l.missing = append(l.missing, job.MissingDependency{Dependency: named, By: by})
			return nil, nil
		}
	}
	found, err := l.load(files, folder, at.depth+1)
	if err != nil {
		if !isLocal {
			err = fmt.Errorf("%s of %s: %w", by, wanted.Repository, err)
		}
		return nil, err
	}
	if !fits(found, wanted) {
		return nil, fmt.Errorf("%s, and at %s there is %s %s", by, wanted.Repository, found.Name(), found.Metadata.Version)
	}
	return found, nil
}

// Revision is the range of a dependency as the revision of a source. There 1.2
// is a version, and for Helm it is every 1.2.x here.
func Revision(version string) string {
	_, strict := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	if _, err := semver.NewVersion(version); err == nil && strict != nil {
		return "=" + version
	}
	return version
}
