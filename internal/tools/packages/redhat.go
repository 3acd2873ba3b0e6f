package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"time"
)

// Types of the fields of a header, by the format's own numbers.
const (
	typeInt16       = 3
	typeInt32       = 4
	typeString      = 6
	typeBinary      = 7
	typeStringArray = 8
	typeI18N        = 9
)

// Tags of the header and of the signature. See
// https://rpm-software-management.github.io/rpm/manual/format_v4.html.
const (
	tagSignatures, tagImmutable = 62, 63
	sigHeaderSHA256             = 273
	sigSize, sigMD5             = 1000, 1004
	sigPayloadSize              = 1007

	tagI18NTable                                                        = 100
	tagName, tagVersion, tagRelease, tagSummary, tagDescription         = 1000, 1001, 1002, 1004, 1005
	tagBuildTime, tagBuildHost, tagSize, tagVendor, tagLicense          = 1006, 1007, 1009, 1011, 1014
	tagPackager, tagGroup, tagURL, tagOS, tagArch                       = 1015, 1016, 1020, 1021, 1022
	tagPostIn, tagPreUn, tagPostInProgram, tagPreUnProgram              = 1024, 1025, 1086, 1087
	tagFileSizes, tagFileModes, tagFileTimes                            = 1028, 1030, 1034
	tagFileRDevs, tagFileDigests, tagFileLinks, tagFileFlags            = 1033, 1035, 1036, 1037
	tagFileUsers, tagFileGroups, tagFileVerify                          = 1039, 1040, 1045
	tagSourceRPM, tagProvideName, tagRequireFlags, tagRequireName       = 1044, 1047, 1048, 1049
	tagRequireVersion, tagProvideFlags, tagProvideVersion               = 1050, 1112, 1113
	tagFileDevices, tagFileInodes, tagFileLangs                         = 1095, 1096, 1097
	tagDirIndexes, tagBaseNames, tagDirNames                            = 1116, 1117, 1118
	tagPayloadFormat, tagPayloadCompressor, tagPayloadFlags             = 1124, 1125, 1126
	tagPayloadDigest, tagPayloadDigestAlgorithm, tagFileDigestAlgorithm = 5092, 5093, 5011
	digestSHA256                                                        = 8
)

// Flags of relations and files.
const (
	senseEqual  = 1 << 3
	senseLess   = 1 << 1
	senseRPMLib = 1 << 24
	flagConfig  = 1<<0 | 1<<4 // kept if it was changed, the new one beside it
)

// field is an entry of a header.
type field struct {
	tag, kind, count int
	data             []byte
}

// text is a field with one string.
func text(tag int, value string) field { return field{tag, typeString, 1, append([]byte(value), 0)} }

// translated is a field with a string in the only language, C.
func translated(tag int, value string) field {
	return field{tag, typeI18N, 1, append([]byte(value), 0)}
}

// texts is a field with several strings.
func texts(tag int, values ...string) field {
	var data []byte
	for _, value := range values {
		data = append(append(data, value...), 0)
	}
	return field{tag, typeStringArray, len(values), data}
}

// numbers is a field with numbers of four bytes.
func numbers(tag int, values ...uint32) field {
	var data []byte
	for _, value := range values {
		data = binary.BigEndian.AppendUint32(data, value)
	}
	return field{tag, typeInt32, len(values), data}
}

// shorts is a field with numbers of two bytes.
func shorts(tag int, values ...uint16) field {
	var data []byte
	for _, value := range values {
		data = binary.BigEndian.AppendUint16(data, value)
	}
	return field{tag, typeInt16, len(values), data}
}

// header returns the fields as rpm stores them: an index sorted by tag, and the
// data that it points to. The region is a field that covers all others: what a
// signature is about.
func header(region int, fields []field) []byte {
	slices.SortFunc(fields, func(a, b field) int { return a.tag - b.tag })
	var index, data []byte
	entry := func(into []byte, tag, kind, offset, count int) []byte {
		for _, number := range []int{tag, kind, offset, count} {
			into = binary.BigEndian.AppendUint32(into, uint32(int32(number)))
		}
		return into
	}
	align := map[int]int{typeInt16: 2, typeInt32: 4}
	for _, one := range fields {
		for width := max(align[one.kind], 1); len(data)%width != 0; {
			data = append(data, 0)
		}
		index = entry(index, one.tag, one.kind, len(data), one.count)
		data = append(data, one.data...)
	}
	const width = 16
	// The region's own data is an entry that points back to its start.
	first := entry(nil, region, typeBinary, len(data), width)
	data = entry(data, region, typeBinary, -width*(len(fields)+1), width)
	made := []byte{0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0}
	made = binary.BigEndian.AppendUint32(made, uint32(len(fields)+1))
	made = binary.BigEndian.AppendUint32(made, uint32(len(data)))
	return slices.Concat(made, first, index, data)
}

// redHat returns the package for RPM: a lead, which is obsolete and has to be
// there, a header with digests, the header, and the files as a compressed cpio
// archive.
func redHat(made contents, given options, architecture string, built time.Time) ([]byte, error) {
	archive := cpio(made.files, built)
	payload, err := compress(archive, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(payload)
	fields := append(describe(made, given, architecture, built), fileFields(made.files, built)...)
	fields = append(fields, texts(tagPayloadDigest, hex.EncodeToString(digest[:])), numbers(tagPayloadDigestAlgorithm, digestSHA256))
	main := header(tagImmutable, fields)
	mainDigest := sha256.Sum256(main)
	sum := md5.New()
	sum.Write(main)
	sum.Write(payload)
	signature := header(tagSignatures, []field{
		text(sigHeaderSHA256, hex.EncodeToString(mainDigest[:])), numbers(sigSize, uint32(len(main)+len(payload))),
		{sigMD5, typeBinary, md5.Size, sum.Sum(nil)}, numbers(sigPayloadSize, uint32(len(archive))),
	})
	for len(signature)%8 != 0 {
		signature = append(signature, 0)
	}
	lead := make([]byte, 96)
	copy(lead, []byte{0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1})
	copy(lead[10:75], fmt.Sprintf("slipway-%s-1", given.version))
	lead[77], lead[79] = 1, 5 // Linux; the signature is a header
	return slices.Concat(lead, signature, main, payload), nil
}

// describe returns the fields about the package.
func describe(made contents, given options, architecture string, built time.Time) []field {
	size := 0
	for _, one := range made.files {
		size += len(one.content)
	}
	return []field{
		texts(tagI18NTable, "C"), text(tagName, "slipway"), text(tagVersion, given.version), text(tagRelease, "1"),
		translated(tagSummary, summary), translated(tagDescription, description), translated(tagGroup, "System Environment/Daemons"),
		// The name of the build machine is not in the package.
		numbers(tagBuildTime, uint32(built.Unix())), text(tagBuildHost, "localhost"), numbers(tagSize, uint32(size)),
		text(tagVendor, "Slipway"), text(tagLicense, "Apache-2.0"), text(tagPackager, maintainer), text(tagURL, homepage),
		text(tagOS, "linux"), text(tagArch, architecture), text(tagSourceRPM, fmt.Sprintf("slipway-%s-1.src.rpm", given.version)),
		text(tagPostIn, made.install), text(tagPostInProgram, "/bin/sh"), text(tagPreUn, made.remove), text(tagPreUnProgram, "/bin/sh"),
		texts(tagProvideName, "slipway"), texts(tagProvideVersion, given.version+"-1"), numbers(tagProvideFlags, senseEqual),
		// What rpm has to understand.
		texts(tagRequireName, "rpmlib(CompressedFileNames)", "rpmlib(FileDigests)", "rpmlib(PayloadFilesHavePrefix)"),
		texts(tagRequireVersion, "3.0.4-1", "4.6.0-1", "4.0-1"),
		numbers(tagRequireFlags, senseRPMLib|senseLess|senseEqual, senseRPMLib|senseLess|senseEqual, senseRPMLib|senseLess|senseEqual),
		text(tagPayloadFormat, "cpio"), text(tagPayloadCompressor, "gzip"), text(tagPayloadFlags, "6"),
	}
}

// fileFields returns the fields about the files, each of which has a value for
// every file.
func fileFields(files []file, built time.Time) []field {
	var sizes, times, flags, verify, devices, inodes, folders []uint32
	var modes, rdevs []uint16
	var digests, links, owners, langs, names, dirs []string
	for i, one := range files {
		dir := path.Dir(one.path) + "/"
		at := slices.Index(dirs, dir)
		if at < 0 {
			at, dirs = len(dirs), append(dirs, dir)
		}
		digest := sha256.Sum256(one.content)
		flag := uint32(0)
		if one.config {
			flag = flagConfig
		}
		sizes, times, flags = append(sizes, uint32(len(one.content))), append(times, uint32(built.Unix())), append(flags, flag)
		verify, devices, inodes = append(verify, ^uint32(0)), append(devices, 1), append(inodes, uint32(i+1))
		modes, rdevs, folders = append(modes, uint16(regularFile|one.mode)), append(rdevs, 0), append(folders, uint32(at))
		digests, links, owners = append(digests, hex.EncodeToString(digest[:])), append(links, ""), append(owners, "root")
		langs, names = append(langs, ""), append(names, path.Base(one.path))
	}
	return []field{
		numbers(tagFileSizes, sizes...), shorts(tagFileModes, modes...), shorts(tagFileRDevs, rdevs...), numbers(tagFileTimes, times...),
		texts(tagFileDigests, digests...), texts(tagFileLinks, links...), numbers(tagFileFlags, flags...), texts(tagFileUsers, owners...),
		texts(tagFileGroups, owners...), numbers(tagFileVerify, verify...), numbers(tagFileDevices, devices...), numbers(tagFileInodes, inodes...),
		texts(tagFileLangs, langs...), numbers(tagDirIndexes, folders...), texts(tagBaseNames, names...), texts(tagDirNames, dirs...),
		numbers(tagFileDigestAlgorithm, digestSHA256),
	}
}

// regularFile is the type in the mode of a file.
const regularFile = 0o100000

// cpio returns the files as an archive in the "new ASCII" format.
func cpio(files []file, built time.Time) []byte {
	var made bytes.Buffer
	add := func(inode, mode uint32, name string, content []byte) {
		time := uint32(built.Unix())
		if name == trailer {
			time = 0
		}
		fmt.Fprintf(&made, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			inode, mode, 0, 0, 1, time, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
		for made.Len()%4 != 0 {
			made.WriteByte(0)
		}
		made.Write(content)
		for made.Len()%4 != 0 {
			made.WriteByte(0)
		}
	}
	for i, one := range files {
		add(uint32(i+1), regularFile|one.mode, "."+one.path, one.content)
	}
	add(0, 0, trailer, nil)
	return made.Bytes()
}

// trailer is the name of the last entry of a cpio archive.
const trailer = "TRAILER!!!"
