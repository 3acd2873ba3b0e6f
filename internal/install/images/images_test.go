package images_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/images"
	"slipway.dev/slipway/internal/must"
)

func runtimeChart(t testing.TB) *chart.Chart {
	t.Helper()
	archive, err := charts.Archive(charts.Runtime)
	must.Do(t, err)
	loaded, err := chart.Read(archive)
	must.Do(t, err)
	return loaded
}

// TestValues: R78: the images are those of the rendered chart with its hooks, and
// with the values for a private registry every one of them comes from there.
func TestValues(t *testing.T) {
	loaded := runtimeChart(t)
	given := map[string]any{
		"global": map[string]any{"platform": map[string]any{"url": "https://platform.example.com", "accountId": strings.Repeat("a", 24), "userToken": map[string]any{"token": "x"}}},
		"image":  map[string]any{"tag": "1.2.3"},
	}
	list := func(values map[string]any) []images.Image {
		t.Helper()
		rendered, err := loaded.Render(t.Context(), values, images.Release())
		must.Do(t, err)
		return images.List(rendered)
	}
	found := list(given)
	if len(found) != 1 || found[0].Reference != "slipway.dev/slipway:1.2.3" {
		t.Fatalf("%+v", found)
	}
	for _, want := range []string{"Deployment slipway-agent", "Deployment slipway-edge", "Job validate-values"} {
		if !slices.Contains(found[0].UsedBy, want) {
			t.Errorf("%s is not among %v", want, found[0].UsedBy)
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	made, err := images.Values(t.Context(), loaded, given, images.RegistrySpec{Registry: "registry.example.com/mirror/", PullSecrets: []string{"registry"}, Digest: digest})
	must.Do(t, err)
	text, _ := json.Marshal(made)
	if want := `{"global":{"imagePullSecrets":["registry"],"imageRegistry":"registry.example.com/mirror"},"image":{"digest":"` + digest + `"}}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if private := list(images.Merged(given, made)); len(private) != 1 || private[0].Reference != "registry.example.com/mirror/slipway@"+digest {
		t.Errorf("%+v", private)
	}
	if got := list(images.Bare(nil)); len(got) != 1 {
		t.Errorf("without values: %+v", got)
	}
}

// TestTarget: where images go, and what is no place for them.
func TestTarget(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, tt := range []struct{ reference, to, want string }{
		{"slipway.dev/slipway:1.0", "registry.example.com", "registry.example.com/slipway:1.0"},
		{"slipway.dev/a/b:1.0", "registry.example.com:5000/x/", "registry.example.com:5000/x/a/b:1.0"},
		{"slipway.dev/slipway@" + digest, "r.example.com/x", "r.example.com/x/slipway@" + digest},
		{"slipway", "r.example.com", "error"},
		{"slipway.dev/slipway", "r.example.com", "error"},
		{"slipway.dev/slipway:1.0", "", "error"},
		{"slipway.dev/slipway:1.0", "https://r.example.com", "error"},
	} {
		got, err := images.Target(tt.reference, tt.to)
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("%s to %s: %s, want %s (%v)", tt.reference, tt.to, got, tt.want, err)
		}
	}
}

// FuzzTarget: what comes out can be read again, whatever goes in.
func FuzzTarget(f *testing.F) {
	f.Add("slipway.dev/slipway:1.0", "registry.example.com/x")
	f.Fuzz(func(t *testing.T, reference, to string) {
		made, err := images.Target(reference, to)
		if err != nil {
			return
		}
		if again, err := images.Target(made, "r.example.com"); err != nil {
			t.Errorf("%q cannot be read again: %q, %v", made, again, err)
		}
	})
}

// layout writes an OCI archive with an image of two platforms, and gives the digest
// of its index and one of a layer.
func layout(t testing.TB, tag string) (archive string, index, layer ocispec.Descriptor) {
	t.Helper()
	folder := t.TempDir()
	store, err := oci.New(folder)
	must.Do(t, err)
	push := func(kind string, blob []byte) ocispec.Descriptor {
		t.Helper()
		made := content.NewDescriptorFromBytes(kind, blob)
		must.Do(t, store.Push(t.Context(), made, bytes.NewReader(blob)))
		return made
	}
	object := func(kind string, value any) ocispec.Descriptor {
		text, _ := json.Marshal(value)
		return push(kind, text)
	}
	top := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, architecture := range []string{"amd64", "arm64"} {
		config := object(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: architecture}})
		layer = push(ocispec.MediaTypeImageLayer, bytes.Repeat([]byte(architecture), 100_000))
		manifest := object(ocispec.MediaTypeImageManifest, ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer},
		})
		manifest.Platform = &ocispec.Platform{OS: "linux", Architecture: architecture}
		top.Manifests = append(top.Manifests, manifest)
	}
	index = object(ocispec.MediaTypeImageIndex, top)
	must.Do(t, store.Tag(t.Context(), index, tag))
	signature := object(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: object(ocispec.MediaTypeImageConfig, ocispec.Image{}),
		Layers: []ocispec.Descriptor{push("application/vnd.dev.cosign.simplesigning.v1+json", []byte("{}"))},
	})
	must.Do(t, store.Tag(t.Context(), signature, signatureTag(index)))
	archive = filepath.Join(t.TempDir(), "image.tar")
	pack(t, folder, archive)
	return archive, index, layer
}

// signatureTag is where cosign looks for the signature of an image.
func signatureTag(image ocispec.Descriptor) string {
	return strings.Replace(image.Digest.String(), ":", "-", 1) + ".sig"
}

// has asks a registry whether it has a blob or manifest, without our own code.
func (p *place) has(t testing.TB, repository string, descriptor ocispec.Descriptor) bool {
	t.Helper()
	repo, err := remote.NewRepository(p.address + "/" + repository)
	must.Do(t, err)
	repo.PlainHTTP = true
	repo.Client = &auth.Client{}
	there, err := repo.Exists(t.Context(), descriptor)
	must.Do(t, err)
	return there
}

// TestMirror: R129, R78: an image goes from an archive to a registry, and from there to a
// registry with TLS of a private authority and a user: all platforms, the same
// digests; a second time nothing is copied, and what was interrupted goes on.
func TestMirror(t *testing.T) {
	first, second := startRegistry(t, false), startRegistry(t, true)
	archive, index, layer := layout(t, "1.2.3")
	plain := open(t, images.Access{Plain: images.PlainLoopback, AuthFile: second.authFile})
	image := []images.Image{{Reference: "slipway.dev/slipway:1.2.3"}}

	copied := mirror(t, images.Mirror{Registries: plain, To: first.address + "/mirror", From: archive}, image)
	if copied.Digest != index.Digest.String() || copied.Present || copied.Blobs != 7 || !first.has(t, "mirror/slipway", layer) {
		t.Errorf("%+v", copied)
	}
	if again := mirror(t, images.Mirror{Registries: plain, To: first.address + "/mirror", From: archive}, image); !again.Present || again.Blobs != 0 {
		t.Errorf("again: %+v", again)
	}
	// An image that was interrupted: the blobs are there, the name is not.
	other := mirror(t, images.Mirror{Registries: plain, To: first.address + "/mirror", From: retagged(t, archive, "1.2.4")}, []images.Image{{Reference: "slipway.dev/slipway:1.2.4"}})
	if other.Present || other.Blobs > 1 {
		t.Errorf("what is there was copied again: %+v", other)
	}

	secured := open(t, images.Access{Plain: images.PlainNever, CAFile: second.caFile, AuthFile: second.authFile})
	must.Do(t, (images.Mirror{Registries: secured, To: second.address, From: archive}).Copy(t.Context(), image, func(images.Copied) {}))
	if got, err := secured.Digest(t.Context(), second.address+"/slipway:1.2.3"); err != nil || got != index.Digest.String() {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := secured.Digest(t.Context(), second.address+"/slipway:"+signatureTag(index)); err != nil {
		t.Errorf("the signature is not copied: %v", err)
	}
}

// TestMirrorSignsLater: an image without a signature is copied, and one that is
// signed later gets its signature although the registry has the image.
func TestMirrorSignsLater(t *testing.T) {
	to := startRegistry(t, false)
	archive, index, _ := layout(t, "1.2.3")
	registries := open(t, images.Access{Plain: images.PlainLoopback, AuthFile: startRegistry(t, true).authFile})
	text, err := os.ReadFile(archive)
	must.Do(t, err)
	unsigned := filepath.Join(t.TempDir(), "unsigned.tar")
	write(t, unsigned, strings.Replace(string(text), ".sig", ".not", 1))
	image := []images.Image{{Reference: "slipway.dev/slipway:1.2.3"}}
	signature := to.address + "/slipway:" + signatureTag(index)

	if copied := mirror(t, images.Mirror{Registries: registries, To: to.address, From: unsigned}, image); copied.Present || copied.Blobs != 7 {
		t.Errorf("%+v", copied)
	}
	mirror(t, images.Mirror{Registries: registries, To: to.address, From: archive, DryRun: true}, image)
	if _, err := registries.Digest(t.Context(), signature); err == nil {
		t.Error("there is a signature before it was copied")
	}
	if copied := mirror(t, images.Mirror{Registries: registries, To: to.address, From: archive}, image); !copied.Present {
		t.Errorf("%+v", copied)
	}
	if _, err := registries.Digest(t.Context(), signature); err != nil {
		t.Errorf("the signature is not copied: %v", err)
	}
}

// TestMirrorRefuses: a registry that cannot be trusted, one that refuses, an image
// that is not there, and a damaged archive are errors that state what to do, without
// the password.
func TestMirrorRefuses(t *testing.T) {
	secured := startRegistry(t, true)
	archive, _, _ := layout(t, "1.2.3")
	wrong := filepath.Join(t.TempDir(), "auth.json")
	write(t, wrong, `{"auths": {"`+secured.address+`": {"auth": "bWlycm9yOndyb25n"}}}`)
	for _, tt := range []struct {
		name   string
		access images.Access
		from   string
		image  string
		want   string
	}{
		{"unknown authority", images.Access{AuthFile: secured.authFile}, archive, "slipway.dev/slipway:1.2.3", "certificate"},
		{"wrong password", images.Access{AuthFile: wrong, CAFile: secured.caFile}, archive, "slipway.dev/slipway:1.2.3", "--auth-file"},
		{"no such image", images.Access{AuthFile: secured.authFile, CAFile: secured.caFile}, archive, "slipway.dev/slipway:9", "in the archive"},
		{"plain", images.Access{AuthFile: secured.authFile, Plain: images.PlainLoopback}, archive, "slipway.dev/slipway:1.2.3", "http://"},
		{"no archive", images.Access{AuthFile: secured.authFile, CAFile: secured.caFile}, wrong, "slipway.dev/slipway:1.2.3", "no OCI archive"},
		{"damaged", images.Access{AuthFile: secured.authFile, CAFile: secured.caFile}, damaged(t, archive), "slipway.dev/slipway:1.2.3", "is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := (images.Mirror{Registries: open(t, tt.access), To: secured.address + "/" + strings.ReplaceAll(tt.name, " ", "-"), From: tt.from}).
				Copy(t.Context(), []images.Image{{Reference: tt.image}}, func(images.Copied) {})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), registryPassword) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := (images.Access{AuthFile: filepath.Join(t.TempDir(), "none")}).Open(); err == nil {
		t.Error("a file that was named and is not there is no error")
	}
	if _, err := (images.Access{CAFile: wrong}).Open(); err == nil {
		t.Error("authorities without a certificate are no error")
	}
}

func open(t testing.TB, access images.Access) *images.Registries {
	t.Helper()
	opened, err := access.Open()
	must.Do(t, err)
	return opened
}

func mirror(t testing.TB, of images.Mirror, list []images.Image) images.Copied {
	t.Helper()
	var last images.Copied
	must.Do(t, of.Copy(t.Context(), list, func(copied images.Copied) { last = copied }))
	return last
}

// damaged changes a byte of a layer.
func damaged(t testing.TB, archive string) string {
	t.Helper()
	text, err := os.ReadFile(archive)
	must.Do(t, err)
	at := bytes.Index(text, []byte("arm64arm64arm64"))
	text[at+7] ^= 1
	made := filepath.Join(t.TempDir(), "damaged.tar")
	write(t, made, string(text))
	return made
}

// retagged is an archive whose image has another tag.
func retagged(t testing.TB, archive, tag string) string {
	t.Helper()
	text, err := os.ReadFile(archive)
	must.Do(t, err)
	made := filepath.Join(t.TempDir(), "other.tar")
	write(t, made, strings.Replace(string(text), `"org.opencontainers.image.ref.name":"1.2.3"`, `"org.opencontainers.image.ref.name":"`+tag+`"`, 1))
	return made
}
