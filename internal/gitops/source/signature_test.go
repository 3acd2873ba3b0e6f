package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
)

// signedRepository is a repository with a project that wants its commits signed.
type signedRepository struct {
	*gittest.Repository
	key     *openpgp.Entity
	book    *credential.Store
	sources *source.Sources
}

func newSignedRepository(t *testing.T) *signedRepository {
	t.Helper()
	_, repository := demo(t)
	key, err := openpgp.NewEntity("A", "", "a@example.com", nil)
	must(t, err)
	book := &credential.Store{}
	return &signedRepository{
		Repository: repository, key: key, book: book,
		sources: open(t, func(o *source.Options) { o.Credentials = book }),
	}
}

// sign returns the signature of a text.
func (r *signedRepository) sign(t *testing.T, content string) string {
	t.Helper()
	var text bytes.Buffer
	must(t, openpgp.ArmoredDetachSign(&text, r.key, strings.NewReader(content), nil))
	return text.String() + "\n"
}

// know writes the key into the ConfigMap.
func (r *signedRepository) know(t *testing.T) {
	t.Helper()
	var public bytes.Buffer
	writer, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, errors.Join(r.key.Serialize(writer), writer.Close()))
	r.setKeys(map[string]string{"a": public.String()})
}

func (r *signedRepository) setKeys(data map[string]string) {
	r.book.SetConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: signature.ConfigMap}, Data: data})
}

// resolve resolves a revision for a project with signature keys.
func (r *signedRepository) resolve(t *testing.T, revision string, keys ...string) error {
	t.Helper()
	spec := v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: []string{"*"}}}
	for _, id := range keys {
		spec.Spec.SignatureKeys = append(spec.Spec.SignatureKeys, v1alpha1.SignatureKey{KeyID: id})
	}
	compiled, refused := project.Compile(&spec)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	admitted, err := compiled.Admit(v1alpha1.ApplicationSource{RepoURL: r.URL(), Path: ".", TargetRevision: revision})
	must(t, err)
	_, err = r.sources.Resolve(t.Context(), admitted, 0)
	return err
}

// strangeKey is one that signed nothing.
const strangeKey = "4AEE18F83AFDEB23"

// own is the fingerprint of the key.
func (r *signedRepository) own() string { return fmt.Sprintf("%X", r.key.PrimaryKey.Fingerprint) }

// A project with signature keys gets commits that one of the keys has signed, by any
// name, and no others. The keys are those of the moment.
func TestSignedCommits(t *testing.T) {
	r := newSignedRepository(t)
	unsigned := r.Head(t)
	r.Commit(t, map[string]string{"README": "signed"}, "signed")
	signed := r.Sign(t, func(commit string) string { return r.sign(t, commit) })
	r.AnnotatedTag(t, "v1.0.0")
	if err := r.resolve(t, unsigned); err != nil {
		t.Errorf("without keys: %v", err)
	}
	wantError(t, r.resolve(t, signed, r.own()), source.Refused, "a key in the ConfigMap argocd-gpg-keys-cm")
	r.know(t)
	for _, revision := range []string{"main", "v1.0.0", signed, signed[:8], "1.x"} {
		if err := r.resolve(t, revision, r.own()); err != nil {
			t.Errorf("%s: %v", revision, err)
		}
	}
	wantError(t, r.resolve(t, unsigned, r.own()), source.Refused, "spec.signatureKeys", "is not signed: sign it with git commit -S")
	wantError(t, r.resolve(t, signed, strangeKey), source.Refused, "none of these keys")
	r.setKeys(nil)
	wantError(t, r.resolve(t, signed, r.own()), source.Refused, "a key in the ConfigMap")
}

// An unsigned commit passes with a signed annotated tag, by each of its names.
func TestSignedTags(t *testing.T) {
	r := newSignedRepository(t)
	r.know(t)
	// Tags of another commit do not count among those that are read.
	for i := range 20 {
		r.AnnotatedTag(t, fmt.Sprintf("a%d", i))
	}
	tagged := r.Commit(t, map[string]string{"README": "tagged"}, "tagged")
	r.AnnotatedTag(t, "a")
	r.SignTag(t, "lost", func(string) string { return "" })
	wantError(t, r.resolve(t, "a", r.own()), source.Refused, "is not signed")
	r.SignTag(t, "v2.0.0", func(tag string) string { return r.sign(t, tag) })
	for _, revision := range []string{"v2.0.0", "2.x", "main", "a", tagged} {
		if err := r.resolve(t, revision, r.own()); err != nil {
			t.Errorf("%s with a signed tag: %v", revision, err)
		}
	}
	wantError(t, r.resolve(t, "v2.0.0", strangeKey), source.Refused, "is not signed")
	// Neither the tag of another text nor that of another commit is one of this.
	foreign := r.Git(t, "cat-file", "tag", "refs/tags/v2.0.0")
	r.Commit(t, map[string]string{"README": "next"}, "next")
	r.SignTag(t, "v3.0.0", func(tag string) string { return r.sign(t, strings.Replace(tag, "v3.0.0", "v3.0.1", 1)) })
	wantError(t, r.resolve(t, "v3.0.0", r.own()), source.Refused, "is not signed")
	r.SignTag(t, "v4.0.0", func(string) string { return "\n" + foreign + "\n" })
	wantError(t, r.resolve(t, "v4.0.0", r.own()), source.Refused, "is not signed")
	r.setKeys(nil)
	wantError(t, r.resolve(t, "v2.0.0", r.own()), source.Refused, "is not signed")
}
