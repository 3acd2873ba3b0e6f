package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
)

// noise is text that no compression makes smaller.
func noise(seed uint64, size int) string {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(text)
	return string(text)
}

// tenants are Sources with a quota of 1 MiB for each project, and what they keep.
type tenants struct {
	*source.Sources
	folder  string
	mu      sync.Mutex
	evicted map[string]int
}

const mebi = 1 << 20

func openTenants(t *testing.T, change ...func(*source.Options)) *tenants {
	s := &tenants{folder: t.TempDir(), evicted: map[string]int{}}
	s.Sources = open(t, append([]func(*source.Options){func(o *source.Options) {
		o.Folder, o.Limits.ProjectBytes = s.folder, mebi
		o.Evicted = func(project string, _ int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.evicted[project]++
		}
	}}, change...)...)
	return s
}

// onDisk is the size of all files in the cache.
func (s *tenants) onDisk(t *testing.T) (bytes int64) {
	t.Helper()
	for _, below := range []string{"git", "charts"} {
		err := filepath.WalkDir(filepath.Join(s.folder, below), func(_ string, one fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !one.IsDir() {
				var info fs.FileInfo
				if info, err = one.Info(); err == nil {
					bytes += info.Size()
				}
			}
			return err
		})
		must(t, err)
	}
	return bytes
}

// get resolves what a project may use from the cache.
func (s *tenants) get(t *testing.T, name, url, revision string) *source.Resolved {
	t.Helper()
	got, err := s.Resolve(t.Context(), of(t, name, url, revision), time.Hour)
	if err != nil {
		t.Fatalf("project %s: %v", name, err)
	}
	return got
}

// ofChart is a chart for a project.
func ofChart(t *testing.T, name, url, chart, version string) project.Admitted {
	t.Helper()
	admitted, err := project.Unlimited(name).Admit(v1alpha1.ApplicationSource{RepoURL: url, Chart: chart, TargetRevision: version})
	must(t, err)
	return admitted
}

// repositories are some with 300 KiB each.
func repositories(t *testing.T, server *gittest.Server, name string, count int) []*gittest.Repository {
	t.Helper()
	all := make([]*gittest.Repository, count)
	for i := range all {
		all[i] = server.Repository(t, fmt.Sprint(name, i), map[string]string{"README": name, "data": noise(uint64(i), 300<<10)})
	}
	return all
}

// fetches is how many packs were fetched of a repository.
func fetches(server *gittest.Server, one *gittest.Repository) int {
	return count(server.Requests(), "POST /"+filepath.Base(one.Dir())+"/git-upload-pack")
}

// A project that uses more than its quota loses what it used least recently, and
// other projects lose nothing: neither repositories nor charts nor indexes.
func TestQuotaEvictsOwnEntries(t *testing.T) {
	server, charts := gittest.Serve(t), serveHelm(t)
	charts.publish(t, "web", "1.0.0")
	good, bad := repositories(t, server, "good", 2), repositories(t, server, "bad", 6)
	s := openTenants(t)
	useGood := func() {
		for _, one := range good {
			s.get(t, "good", one.URL(), "main")
		}
		_, err := s.Resolve(t.Context(), ofChart(t, "good", charts.URL, "web", "1.0.0"), time.Hour)
		must(t, err)
	}
	useGood()
	for range 2 {
		for _, one := range bad {
			s.get(t, "bad", one.URL(), "main")
			s.get(t, "bad", bad[0].URL(), "main")
		}
	}
	useGood()
	for _, one := range good {
		if n := fetches(server, one); n != 1 {
			t.Errorf("%s was fetched %d times", one.URL(), n)
		}
	}
	if n := charts.asked("/"); n != 2 {
		t.Errorf("the charts were requested %d times", n)
	}
	// The one that is always in use stays, and the others come and go.
	if n := fetches(server, bad[0]); n != 1 {
		t.Errorf("what is in use was fetched %d times", n)
	}
	if n := fetches(server, bad[1]); n != 2 {
		t.Errorf("what is not in use was fetched %d times", n)
	}
	usage := s.DiskUsage()
	if usage["bad"] > mebi || usage["bad"] < mebi/2 || usage["good"] < 600<<10 || s.evicted["bad"] == 0 || s.evicted["good"] != 0 {
		t.Errorf("the usage is %v, evicted are %v", usage, s.evicted)
	}
	if disk := s.onDisk(t); disk > 2*mebi || disk > usage["bad"]+usage["good"] {
		t.Errorf("%d bytes are on the disk", disk)
	}
}

// What does not fit into the quota is refused with the option and the sizes, and
// leaves nothing behind.
func TestFetchBeyondQuota(t *testing.T) {
	server, charts := gittest.Serve(t), serveHelm(t)
	large := server.Repository(t, "large", map[string]string{"data": noise(1, 3*mebi)})
	small := server.Repository(t, "small", map[string]string{"README": "hello"})
	charts.set("/index.yaml", []byte("entries: {web: [{version: 1.0.0, urls: [web.tgz]}]}"))
	charts.set("/web.tgz", []byte(noise(2, 2*mebi)))
	s := openTenants(t)
	s.get(t, "bad", small.URL(), "main")
	for range 2 {
		_, err := s.Resolve(t.Context(), of(t, "bad", large.URL(), "main"), 0)
		wantError(t, err, source.Refused, "project bad", "sources.diskPerProject", "limit is 1024Ki", large.URL())
		if n := fetches(server, large); n != 1 {
			t.Errorf("it was fetched %d times", n)
		}
		_, err = s.Resolve(t.Context(), ofChart(t, "bad", charts.URL, "web", "1.0.0"), 0)
		wantError(t, err, source.Refused, "project bad", "sources.diskPerProject")
	}
	charts.set("/index.yaml", []byte("entries: {web: [{version: 1.0.0, urls: [web.tgz], description: "+strings.Repeat("x", 2*mebi)+"}]}"))
	_, err := s.Resolve(t.Context(), ofChart(t, "bad", charts.URL, "web", "1.0.0"), 0)
	wantError(t, err, source.Refused, "sources.diskPerProject")
	if disk, usage := s.onDisk(t), s.DiskUsage(); disk > 64<<10 || usage["bad"] > 5*64<<10 {
		t.Errorf("%d bytes are on the disk, the usage is %v", disk, usage)
	}
	// Another quota would do.
	resolve(t, open(t), large.URL(), "main")
}

// An AppProject can have a limit of its own, and loses it again.
func TestQuotaOfOneProject(t *testing.T) {
	server := gittest.Serve(t)
	large := server.Repository(t, "large", map[string]string{"data": noise(1, 3*mebi)})
	admitted := func(annotations map[string]string) project.Admitted {
		object := &v1alpha1.AppProject{}
		object.Name, object.Annotations, object.Spec.SourceRepos = "big", annotations, []string{"*"}
		compiled, refused := project.Compile(object)
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		found, err := compiled.Admit(v1alpha1.ApplicationSource{RepoURL: large.URL(), TargetRevision: "main"})
		must(t, err)
		return found
	}
	s := openTenants(t)
	_, err := s.Resolve(t.Context(), admitted(nil), 0)
	wantError(t, err, source.Refused, "limit is 1024Ki", project.DiskAnnotation)
	_, err = s.Resolve(t.Context(), admitted(map[string]string{project.DiskAnnotation: "4Mi"}), 0)
	must(t, err)
	_, err = s.Resolve(t.Context(), of(t, "team", large.URL(), "main"), 0)
	must(t, err) // it is there
	large.Commit(t, map[string]string{"data": noise(2, 3*mebi)}, "another")
	_, err = s.Resolve(t.Context(), admitted(nil), 0)
	wantError(t, err, source.Refused, "limit is 1024Ki")
	for _, text := range []string{"much", "-1Gi", "0"} {
		object := &v1alpha1.AppProject{}
		object.Annotations = map[string]string{project.DiskAnnotation: text}
		if _, refused := project.Compile(object); len(refused) != 1 || !strings.Contains(refused[0].Field, project.DiskAnnotation) {
			t.Errorf("%q: %v", text, refused)
		}
	}
}

// A repository that grows beyond the quota begins again with what is used, and
// Stores that were given out stay readable.
func TestGrowingRepositoryStaysInQuota(t *testing.T) {
	server := gittest.Serve(t)
	one := server.Repository(t, "one", map[string]string{"README": "hello"})
	s := openTenants(t)
	var first *source.Resolved
	for i := range 12 {
		one.Commit(t, map[string]string{"data": noise(uint64(i), 300<<10)}, "more")
		got, err := s.Resolve(t.Context(), of(t, "team", one.URL(), "main"), 0)
		must(t, err)
		if read(t, got.Store, "data") != noise(uint64(i), 300<<10) {
			t.Errorf("commit %d has another content", i)
		}
		if first == nil {
			first = got
		}
		if disk, usage := s.onDisk(t), s.DiskUsage()["team"]; disk > mebi || usage > mebi || usage < 300<<10 {
			t.Errorf("after commit %d %d bytes are on the disk, and %d count", i, disk, usage)
		}
	}
	if read(t, first.Store, "data") != noise(0, 300<<10) {
		t.Error("the first commit has another content")
	}
	if n := fetches(server, one); n > 16 {
		t.Errorf("%d fetches of 12 commits", n)
	}
}

// What two projects use stays for one of them when the other one loses it.
func TestQuotaOfSharedRepositories(t *testing.T) {
	server := gittest.Serve(t)
	shared, bad := repositories(t, server, "shared", 1)[0], repositories(t, server, "bad", 5)
	s := openTenants(t)
	s.get(t, "bad", shared.URL(), "main")
	s.get(t, "good", shared.URL(), "main")
	if usage := s.DiskUsage(); usage["bad"] != usage["good"] || usage["good"] < 300<<10 {
		t.Errorf("the usage is %v", usage)
	}
	for _, one := range bad {
		s.get(t, "bad", one.URL(), "main")
	}
	s.get(t, "good", shared.URL(), "main")
	if n := fetches(server, shared); n != 1 {
		t.Errorf("the shared repository was fetched %d times", n)
	}
	if s.evicted["bad"] < 2 || s.evicted["good"] != 0 {
		t.Errorf("evicted are %v", s.evicted)
	}
}

// The limit of all projects together takes from those that use more than an
// equal share.
func TestQuotaOfAllProjects(t *testing.T) {
	server := gittest.Serve(t)
	good, bad := repositories(t, server, "good", 1)[0], repositories(t, server, "bad", 5)
	s := openTenants(t, func(o *source.Options) { o.Limits.DiskBytes = mebi + 100<<10 })
	s.get(t, "good", good.URL(), "main")
	for _, one := range bad {
		s.get(t, "bad", one.URL(), "main")
	}
	s.get(t, "good", good.URL(), "main")
	if n := fetches(server, good); n != 1 || s.evicted["good"] != 0 || s.onDisk(t) > mebi+100<<10 {
		t.Errorf("%d fetches, evicted are %v, %d bytes are on the disk", n, s.evicted, s.onDisk(t))
	}
	large := server.Repository(t, "large", map[string]string{"data": noise(9, 400<<10)})
	_, err := s.Resolve(t.Context(), of(t, "good", large.URL(), "main"), 0)
	must(t, err)
	if s.onDisk(t) > mebi+100<<10 || s.evicted["good"] != 0 {
		t.Errorf("%d bytes are on the disk, evicted are %v", s.onDisk(t), s.evicted)
	}
}

// Fetches at the same time do not exceed the quota together.
func TestQuotaOfParallelFetches(t *testing.T) {
	release := make(chan struct{})
	sent := make(chan struct{}, 4)
	archive := []byte(noise(1, 400<<10))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			var index strings.Builder
			index.WriteString("entries:\n  web:\n")
			for i := range 4 {
				fmt.Fprintf(&index, "  - version: 1.0.%d\n    urls: [%d.tgz]\n", i, i)
			}
			_, _ = w.Write([]byte(index.String()))
			return
		}
		_, _ = w.Write(archive)
		_ = http.NewResponseController(w).Flush()
		sent <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	s := openTenants(t)
	results := make(chan error, 4)
	fetch := func(version int) {
		_, err := s.Resolve(t.Context(), ofChart(t, "bad", server.URL, "web", fmt.Sprint("1.0.", version)), time.Hour)
		results <- err
	}
	// Two fit, and wait for the rest of their archives.
	go fetch(0)
	go fetch(1)
	<-sent
	<-sent
	for ctx := soon(t); s.DiskUsage()["bad"] < 800<<10; {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d bytes count", s.DiskUsage()["bad"])
		}
	}
	for i := range 2 {
		fetch(2 + i)
		wantError(t, <-results, source.Refused, "sources.diskPerProject", "other fetches of the project receive 800Ki")
	}
	if disk := s.onDisk(t); disk > mebi {
		t.Errorf("%d bytes are on the disk", disk)
	}
	close(release)
	for range 2 {
		if err := <-results; source.IsKind(err, source.Refused) && strings.Contains(err.Error(), "disk") {
			t.Errorf("one that fits: %v", err)
		}
	}
	if usage := s.DiskUsage()["bad"]; usage > 3*64<<10+2*400<<10 {
		t.Errorf("%d bytes count at the end", usage)
	}
}

// A restart counts the same for the same projects, and removes what belongs to
// none, or was not used for a week: repositories, charts and indexes.
func TestQuotaAfterRestart(t *testing.T) {
	server, charts := gittest.Serve(t), serveHelm(t)
	charts.publish(t, "web", "1.0.0", "1.1.0")
	all := repositories(t, server, "one", 3)
	folder := t.TempDir()
	here := func(o *source.Options) { o.Folder, o.Limits.ProjectBytes = folder, mebi }
	s := &tenants{Sources: open(t, here), folder: folder}
	s.get(t, "red", all[0].URL(), "main")
	s.get(t, "blue", all[1].URL(), "main")
	s.get(t, "red", all[1].URL(), "main")
	for i, version := range []string{"1.0.0", "1.1.0"} {
		_, err := s.Resolve(t.Context(), ofChart(t, []string{"red", "blue"}[i], charts.URL, "web", version), time.Hour)
		must(t, err)
	}
	before := s.DiskUsage()
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(folder, "charts", "tmp_1"), []byte("x"), 0o600))
	must(t, os.MkdirAll(filepath.Join(folder, "git", "stranger"), 0o700))

	s = &tenants{Sources: open(t, here), folder: folder}
	if after := s.DiskUsage(); after["red"] < before["red"] || after["red"] > before["red"]+4<<10 || after["blue"] < before["blue"] || len(after) != 2 {
		t.Errorf("the usage was %v and is %v", before, after)
	}
	if left := append(glob(t, folder, "charts/tmp_*"), glob(t, folder, "git/stranger")...); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
	s.get(t, "blue", all[1].URL(), all[1].Head(t))
	if n := fetches(server, all[1]); n != 1 {
		t.Errorf("%d fetches of what is there", n)
	}
	// Nothing of blue is evicted by red after the restart either.
	s.get(t, "red", all[2].URL(), "main")
	s.get(t, "red", server.Repository(t, "four", map[string]string{"data": noise(4, 500<<10)}).URL(), "main")
	s.get(t, "blue", all[1].URL(), all[1].Head(t))
	if n := fetches(server, all[1]); n != 1 {
		t.Errorf("%d fetches of what another project uses", n)
	}
	must(t, s.Close())

	old := time.Now().Add(-8 * 24 * time.Hour)
	for _, path := range append(glob(t, folder, "charts/*"), glob(t, folder, "git/*")...) {
		must(t, os.Chtimes(path, old, old))
	}
	s = &tenants{Sources: open(t, here), folder: folder}
	fresh := server.Repository(t, "fresh", map[string]string{"README": "hello"})
	s.get(t, "red", fresh.URL(), "main")
	if left := append(glob(t, folder, "charts/*"), glob(t, folder, "git/*")...); len(left) != 1 {
		t.Errorf("left are %q", left)
	}
	if usage := s.DiskUsage(); usage["red"] != 64<<10 || len(usage) != 1 {
		t.Errorf("the usage is %v", usage)
	}
}

// A project whose servers do not respond has all exchanges but one, and others go
// on.
func TestHangingServersOfOneProject(t *testing.T) {
	server := gittest.Serve(t)
	good := server.Repository(t, "good", map[string]string{"README": "hello"})
	arrived := make(chan struct{}, 20)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	s := openTenants(t, func(o *source.Options) { o.Limits.Parallel, o.FetchTimeout = 2, time.Minute })
	t.Cleanup(func() { must(t, s.Close()) }) // before the server is closed
	for i := range 10 {
		go func() {
			_, _ = s.Resolve(t.Context(), of(t, "bad", fmt.Sprint(hanging.URL, "/", i), "main"), 0)
		}()
	}
	<-arrived
	<-arrived
	for i := range 3 {
		got, err := s.Resolve(soon(t), of(t, "good", good.URL(), "main"), 0)
		if err != nil || read(t, got.Store, "README") != "hello" {
			t.Fatalf("resolve %d while another project hangs: %v", i, err)
		}
	}
	if len(arrived) != 0 {
		t.Errorf("%d more requests of the hanging project were sent", len(arrived))
	}
}
