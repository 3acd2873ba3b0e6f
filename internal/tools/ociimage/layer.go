package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"path"
	"path/filepath"
)

const (
	// userAndGroup is the user of the charts. It is numeric, because the
	// kubelet cannot verify runAsNonRoot for a name.
	userAndGroup = "65532:65532"

	// passwd and group contain that user, for programs that look up their home.
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nslipway:x:65532:65532:slipway:/tmp:/sbin/nologin\n"
	group  = "root:x:0:\nnobody:x:65534:\nslipway:x:65532:\n"

	// sbomFolder has the bill of materials of the program. Scanners find it by
	// the end of its name, .cdx.json.
	sbomFolder = "usr/local/share/sbom"

	// mostProgram, mostAuthorities and mostSBOM bound the files that go into
	// the image.
	mostProgram     = 512 << 20
	mostAuthorities = 4 << 20
	mostSBOM        = 16 << 20
)

// layer is a part of the file system. The config refers to the digest of
// unpacked, and the manifest to that of packed.
type layer struct {
	about            string
	unpacked, packed []byte
}

// buildLayers returns two layers: the base, which seldom changes and stays in
// the cache of nodes, and the program.
func buildLayers(given options, i int) ([]layer, error) {
	program, err := readBounded(given.binaries[i], mostProgram)
	if err != nil {
		return nil, err
	}
	var authorities []byte
	if given.authorities != "" {
		if authorities, err = readAuthorities(given.authorities); err != nil {
			return nil, err
		}
	}
	var sbom []byte
	if len(given.sboms) > 0 {
		if sbom, err = readBounded(given.sboms[i], mostSBOM); err != nil {
			return nil, err
		}
	}
	base, err := pack("users, certificate authorities, /tmp", func(files *archive) {
		files.folder("etc", 0o755)
		files.file("etc/group", 0o644, []byte(group))
		files.file("etc/passwd", 0o644, []byte(passwd))
		if authorities != nil {
			files.folder("etc/ssl", 0o755)
			files.folder("etc/ssl/certs", 0o755)
			files.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities)
		}
		files.folder("tmp", 0o1777)
	})
	if err != nil {
		return nil, err
	}
	place := programPath(given.binaries[i])
	top, err := pack("the program "+path.Base(place), func(files *archive) {
		for _, folder := range []string{"usr", "usr/local", "usr/local/bin"} {
			files.folder(folder, 0o755)
		}
		files.file(place[1:], 0o755, program)
		if sbom != nil {
			files.folder("usr/local/share", 0o755)
			files.folder(sbomFolder, 0o755)
			files.file(sbomFolder+"/"+path.Base(place)+".cdx.json", 0o644, sbom)
		}
	})
	return []layer{base, top}, err
}

// programPath returns the path of the program in the image.
func programPath(binary string) string {
	return "/usr/local/bin/" + path.Base(filepath.ToSlash(binary))
}

// readAuthorities reads the CA bundle, and returns an error if it does not
// start with a certificate: an image with a broken bundle fails every TLS
// handshake.
func readAuthorities(name string) ([]byte, error) {
	content, err := readBounded(name, mostAuthorities)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w (Debian has them in the package ca-certificates)", err)
	}
	if block, _ := pem.Decode(content); block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s has no certificate in PEM", name)
	}
	return content, nil
}

// pack builds a layer. The gzip header has no name and no time, so the
// compressed bytes are reproducible with the same Go version.
func pack(about string, fill func(*archive)) (layer, error) {
	var unpacked, packed bytes.Buffer
	files := newArchive(&unpacked)
	fill(files)
	if err := files.close(); err != nil {
		return layer{}, err
	}
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(unpacked.Bytes()); err != nil {
		return layer{}, err
	}
	err := writer.Close()
	return layer{about: about, unpacked: unpacked.Bytes(), packed: packed.Bytes()}, err
}
