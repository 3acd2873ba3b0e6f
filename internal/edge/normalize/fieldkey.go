package normalize

import "encoding/binary"

// maxKeyed is the length of the longest name that fits a fieldKey.
const maxKeyed = 24

// fieldKey is a name as three words that overlap, so that a name of any length is
// compared with three instructions for each word in place of five for each byte.
type fieldKey [3]uint64

// keyOf returns the key of a name of 2 to maxKeyed bytes. Names of different length
// can have the same one.
func keyOf(name []byte) (k fieldKey) {
	n := len(name)
	switch {
	case n >= 8:
		k[0], k[1] = binary.LittleEndian.Uint64(name), binary.LittleEndian.Uint64(name[n-8:])
		if n > 16 {
			k[2] = binary.LittleEndian.Uint64(name[8:])
		}
	case n >= 4:
		k[0] = uint64(binary.LittleEndian.Uint32(name)) | uint64(binary.LittleEndian.Uint32(name[n-4:]))<<32
	default:
		k[0] = uint64(binary.LittleEndian.Uint16(name)) | uint64(binary.LittleEndian.Uint16(name[n-2:]))<<32
	}
	return k
}

// keyedField is a field with the key of its name, and the bits that distinguish capital
// letters in it. Only letters have such a bit: a byte that is no letter has to be the
// same, and none but its capital passes for a letter.
type keyedField struct {
	key, capitals fieldKey
	length        uint8
	field         Field // FieldOther where the slot is free
}

// keyedFields are in the slots of fieldSlots.
var keyedFields = func() (keyed [256]keyedField) {
	for slot, f := range fieldSlots {
		name := fieldFacts[f].name
		if f == FieldOther || len(name) > maxKeyed {
			keyed[slot].field = f
			continue
		}
		var bits [maxKeyed]byte
		for i := range len(name) {
			if name[i]-'a' < 26 {
				bits[i] = 'a' - 'A'
			}
		}
		keyed[slot] = keyedField{keyOf(Bytes(name)), keyOf(bits[:len(name)]), uint8(len(name)), f}
	}
	return keyed
}()

// KnownField returns the field of a name that is one of those with a meaning here, in
// any case. It is FieldOther for all other names, valid or not: a name that it knows
// needs no validation.
func KnownField(name []byte) Field {
	n := len(name)
	if n < 2 {
		return FieldOther
	}
	if n > maxKeyed {
		return longField(name)
	}
	key := keyOf(name)
	for slot := fieldHash(name); ; slot++ {
		k := &keyedFields[slot]
		if k.field == FieldOther {
			return FieldOther
		}
		if int(k.length) == n && key[0]|k.capitals[0] == k.key[0] && key[1]|k.capitals[1] == k.key[1] && key[2]|k.capitals[2] == k.key[2] {
			return k.field
		}
	}
}

// longField is KnownField for names that have no key.
func longField(name []byte) Field {
	for slot := fieldHash(name); fieldSlots[slot] != FieldOther; slot++ {
		if f := fieldSlots[slot]; EqualFold(name, fieldFacts[f].name) {
			return f
		}
	}
	return FieldOther
}
