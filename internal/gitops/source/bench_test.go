package source_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
)

// BenchmarkThousandApplications reads the four files of each of a thousand
// applications of one repository, as their first render does.
func BenchmarkThousandApplications(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		for _, name := range []string{"deployment", "service", "ingress", "account"} {
			files[fmt.Sprintf("apps/%04d/%s.yaml", i, name)] = fmt.Sprintf("kind: %s\nname: app-%d\n%s", name, i, strings.Repeat("line: same\n", 40))
		}
	}
	repository := gittest.Serve(b).Repository(b, "demo", files)
	s := open(b)
	store := resolve(b, s, repository.URL(), "main").Store
	b.ReportAllocs()
	for b.Loop() {
		for i := range 1000 {
			folder := fmt.Sprintf("apps/%04d", i)
			entries, err := store.List(folder)
			if err != nil {
				b.Fatal(err)
			}
			for _, entry := range entries {
				if _, err := store.Read(folder+"/"+entry.Name, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// BenchmarkResolveCached resolves a branch whose refs and commit are there, as
// each run of an Application does after a poll.
func BenchmarkResolveCached(b *testing.B) {
	repository := gittest.Serve(b).Repository(b, "demo", map[string]string{"README": "hello"})
	s := open(b)
	wanted := at(repository.URL(), "main")
	resolve(b, s, repository.URL(), "main")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Resolve(b.Context(), wanted, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
