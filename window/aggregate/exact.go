package aggregate

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
)

// Exact is a sum of float64 values without any rounding, so that neither order nor grouping changes it. It is 48 bytes as long as the
// values are within some 2^64 of one another, which is nearly always; else it allocates once, a few hundred bytes. The zero value is an
// empty sum. It must be copied with Merge.
type Exact struct {
	n     [4]uint64 // two's complement, the least limb first, in units of 2^(64·base)
	wide  *big.Int  // the sum instead of n, in units of 2^wideExponent
	base  int32
	flags uint8
}

const (
	exactUsed = 1 << iota // base is set
	exactNaN
	exactPlusInf
	exactMinusInf
)

// wideExponent is the least exponent of a product of two float64, in whole limbs.
const (
	wideLimb     = -34
	wideExponent = 64 * wideLimb
)

// Add adds one value. NaN and the infinities do to the sum what they do in floating point.
func (e *Exact) Add(x float64) { e.add(x, false) }

// Remove takes away a value that was added. NaN and the infinities cannot be taken away.
func (e *Exact) Remove(x float64) { e.add(x, true) }

func (e *Exact) add(x float64, negative bool) {
	if m, exponent, minus, ok := e.split(x); ok {
		e.addParts(m, exponent, minus != negative)
	}
}

// addScaled adds x·2^power, which need not be a float64.
func (e *Exact) addScaled(x float64, power int32) {
	if m, exponent, minus, ok := e.split(x); ok {
		e.addParts(m, exponent+power, minus)
	}
}

func (e *Exact) addParts(m uint64, exponent int32, minus bool) {
	s := uint(exponent & 63)
	e.addLimbs([3]uint64{m << s, m >> (64 - s)}, exponent>>6, minus)
}

// addSquare adds x², which has twice the digits and is exact too.
func (e *Exact) addSquare(x float64) {
	m, exponent, _, ok := e.split(x)
	if !ok {
		if math.IsInf(x, -1) {
			e.flags = e.flags&^exactMinusInf | exactPlusInf
		}
		return
	}
	hi, lo := bits.Mul64(m, m)
	exponent *= 2
	s := uint(exponent & 63)
	e.addLimbs([3]uint64{lo << s, hi<<s | lo>>(64-s), hi >> (64 - s)}, exponent>>6, false)
}

// split is x as m·2^exponent; not ok for zero and for what is noted in the flags.
func (e *Exact) split(x float64) (m uint64, exponent int32, minus, ok bool) {
	b := math.Float64bits(x)
	m, exponent, minus = b&(1<<52-1), int32(b>>52&0x7ff), b>>63 != 0
	switch exponent {
	case 0x7ff:
		switch {
		case m != 0:
			e.flags |= exactNaN
		case minus:
			e.flags |= exactMinusInf
		default:
			e.flags |= exactPlusInf
		}
		return 0, 0, false, false
	case 0:
		return m, -1074, minus, m != 0
	}
	return m | 1<<52, exponent - 1075, minus, true
}

// addLimbs adds a·2^(64·limb).
func (e *Exact) addLimbs(a [3]uint64, limb int32, minus bool) {
	if e.wide == nil && e.addNarrow(a, limb, minus) {
		return
	}
	e.widen()
	v := limbs(a[:])
	if limb < wideLimb {
		return // below all products of float64
	}
	v.Lsh(v, uint(limb-wideLimb)*64)
	if minus {
		v.Neg(v)
	}
	e.wide.Add(e.wide, v)
}

func (e *Exact) addNarrow(a [3]uint64, limb int32, minus bool) bool {
	if e.flags&exactUsed == 0 {
		e.base = limb - 1
		e.flags |= exactUsed
	}
	width := int32(3)
	if a[2] == 0 && a[1]>>63 == 0 { // the highest bit of all is the sign
		width = 2
	}
	if at := limb - e.base; (at < 0 || at+width > 4) && !e.rebase(limb, width) {
		return false
	}
	var x [4]uint64
	at := limb - e.base
	copy(x[at:], a[:width])
	return e.addSame(&x, minus)
}

// addSame adds a number in the units of e; false, without a change, when the sum does not fit.
func (e *Exact) addSame(x *[4]uint64, minus bool) bool {
	var r [4]uint64
	var c uint64
	before, other := e.n[3]>>63, x[3]>>63
	if minus {
		other ^= 1
		r[0], c = bits.Sub64(e.n[0], x[0], 0)
		r[1], c = bits.Sub64(e.n[1], x[1], c)
		r[2], c = bits.Sub64(e.n[2], x[2], c)
		r[3], _ = bits.Sub64(e.n[3], x[3], c)
	} else {
		r[0], c = bits.Add64(e.n[0], x[0], 0)
		r[1], c = bits.Add64(e.n[1], x[1], c)
		r[2], c = bits.Add64(e.n[2], x[2], c)
		r[3], _ = bits.Add64(e.n[3], x[3], c)
	}
	if before == other && r[3]>>63 != before {
		return false
	}
	e.n = r
	return true
}

// rebase moves the units of e so that a number of that width at limb has room; false, without a change, when e does not fit then.
func (e *Exact) rebase(limb, width int32) bool {
	if e.n == [4]uint64{} {
		e.base = limb - 1
		return true
	}
	if limb < e.base {
		return e.shift(limb)
	}
	return e.shift(limb + width - 4)
}

// shift gives e another base.
func (e *Exact) shift(base int32) bool {
	d := int(e.base) - int(base)
	if d >= 4 || d <= -4 {
		return false
	}
	sign := uint64(int64(e.n[3]) >> 63)
	var r [4]uint64
	for i := range r {
		r[i] = sign
	}
	for i, limb := range e.n {
		switch to := i + d; {
		case to >= 0 && to < 4:
			r[to] = limb
		case to < 0 && limb != 0, to >= 4 && limb != sign:
			return false
		}
	}
	for i := range d {
		r[i] = 0
	}
	if r[3]>>63 != sign&1 {
		return false
	}
	e.n, e.base = r, base
	return true
}

// halve divides e by 2^(64·limbs). What is below the least product of float64 is lost.
func (e *Exact) halve(limbs int64) {
	switch {
	case limbs <= 0:
	case limbs > -2*wideLimb:
		*e = Exact{flags: e.flags &^ exactUsed}
	case e.wide != nil:
		e.wide.Quo(e.wide, new(big.Int).Lsh(big.NewInt(1), uint(64*limbs)))
	default:
		e.base -= int32(limbs)
		if e.base < 2*wideLimb {
			*e = Exact{flags: e.flags &^ exactUsed}
		}
	}
}

func (e *Exact) widen() {
	if e.wide != nil {
		return
	}
	e.wide, e.n = e.inWide(), [4]uint64{}
}

// inWide is the finite part of e in units of 2^wideExponent.
func (e *Exact) inWide() *big.Int {
	v, exponent := e.integer()
	if exponent < wideExponent { // only what has been halved
		return v.Quo(v, new(big.Int).Lsh(big.NewInt(1), uint(wideExponent-exponent)))
	}
	return v.Lsh(v, uint(exponent-wideExponent))
}

func limbs(n []uint64) *big.Int {
	b := make([]byte, 0, 8*len(n))
	for i := len(n) - 1; i >= 0; i-- {
		for s := 56; s >= 0; s -= 8 {
			b = append(b, byte(n[i]>>s))
		}
	}
	return new(big.Int).SetBytes(b)
}

// integer is the finite part of e as v·2^exponent; v may be changed.
func (e *Exact) integer() (v *big.Int, exponent int) {
	if e.wide != nil {
		return new(big.Int).Set(e.wide), wideExponent
	}
	n, minus := e.magnitude()
	v = limbs(n[:])
	if minus {
		v.Neg(v)
	}
	return v, 64 * int(e.base)
}

// finite is integer; not ok where the sum is NaN or infinite.
func (e *Exact) finite() (v *big.Int, exponent int, ok bool) {
	if _, special := e.special(); special {
		return nil, 0, false
	}
	v, exponent = e.integer()
	return v, exponent, true
}

func (e *Exact) magnitude() (n [4]uint64, minus bool) {
	if n = e.n; n[3]>>63 == 0 {
		return n, false
	}
	var b uint64
	for i := range n {
		n[i], b = bits.Sub64(0, n[i], b)
	}
	return n, true
}

// Merge adds all values of from.
func (e *Exact) Merge(from *Exact) {
	e.flags |= from.flags &^ exactUsed
	e.mergeFinite(from, false)
}

// Unmerge takes away all values of from, which were added or merged. It is false, and does nothing, when from has NaN or an infinity.
func (e *Exact) Unmerge(from *Exact) bool {
	if _, special := from.special(); special {
		return false
	}
	e.mergeFinite(from, true)
	return true
}

func (e *Exact) mergeFinite(from *Exact, minus bool) {
	used := e.flags & exactUsed
	if from.wide == nil && e.wide == nil {
		if from.flags&exactUsed == 0 {
			return
		}
		if used == 0 && !minus {
			e.n, e.base, e.flags = from.n, from.base, e.flags|exactUsed
			return
		}
		other := *from
		if (other.base == e.base || other.shift(e.base) || e.shift(from.base)) && e.base == other.base && e.addSame(&other.n, minus) {
			return
		}
	}
	e.widen()
	e.flags |= exactUsed
	if minus {
		e.wide.Sub(e.wide, from.inWide())
	} else {
		e.wide.Add(e.wide, from.inWide())
	}
}

// special is the sum when it is not finite.
func (e *Exact) special() (float64, bool) {
	const both = exactPlusInf | exactMinusInf
	switch {
	case e.flags&exactNaN != 0 || e.flags&both == both:
		return math.NaN(), true
	case e.flags&exactPlusInf != 0:
		return math.Inf(1), true
	case e.flags&exactMinusInf != 0:
		return math.Inf(-1), true
	}
	return 0, false
}

// Float64 is the sum, rounded once, to the nearest float64 and to even between two. A sum beyond the range is infinite; an
// empty one and one of zeros is +0.
func (e *Exact) Float64() float64 {
	if x, ok := e.special(); ok {
		return x
	}
	if e.wide == nil {
		if x, ok := e.narrow(); ok {
			return x
		}
	}
	v, exponent := e.integer()
	return scaled(v, exponent)
}

// overflows says whether the finite sum is out of range, where x is what Float64 has made of it.
func (e *Exact) overflows(x float64) bool {
	_, special := e.special()
	return !special && math.IsInf(x, 0)
}

// scaled is v·2^exponent, rounded once.
func scaled(v *big.Int, exponent int) float64 {
	f := new(big.Float).SetInt(v)
	x, _ := f.SetMantExp(f, exponent).Float64()
	return x
}

// narrow rounds n, unless the result is not a normal number.
func (e *Exact) narrow() (float64, bool) {
	n, minus := e.magnitude()
	top := 3
	for top >= 0 && n[top] == 0 {
		top--
	}
	if top < 0 {
		return 0, true
	}
	s := bits.LeadingZeros64(n[top])
	m := n[top] << s
	sticky := uint64(0)
	if top > 0 {
		m |= n[top-1] >> (64 - s)
		sticky = n[top-1] << s
		for _, limb := range n[:top-1] {
			sticky |= limb
		}
	}
	exponent := 64*(int(e.base)+top) - s // of m's last bit
	if exponent+63 < -1022 || exponent+63 > 1022 {
		return 0, false
	}
	const half = 1 << 10
	rest := m & (2*half - 1)
	m >>= 11
	if rest > half || rest == half && (sticky != 0 || m&1 != 0) {
		m++
	}
	x := uint64(exponent+63+1023)<<52 + m - 1<<52 // of m = 2^53 the exponent takes the carry
	if minus {
		x |= 1 << 63
	}
	return math.Float64frombits(x), true
}

// maxExactBits bounds a decoded sum: 2^63 squares of the greatest float64.
const maxExactBits = 4400

// append appends the bytes of e, which are equal for equal sums however they were made.
func (e *Exact) append(dst []byte) []byte {
	var b []byte
	var room [32]byte
	var exponent, zeros int
	var minus bool
	if e.wide != nil {
		minus, exponent, zeros = e.wide.Sign() < 0, wideExponent, int(e.wide.TrailingZeroBits())
		b = new(big.Int).Rsh(new(big.Int).Abs(e.wide), uint(zeros)).Bytes()
	} else {
		var n [4]uint64
		n, minus = e.magnitude()
		exponent = 64 * int(e.base)
		n, zeros = oddPart(n)
		for i, limb := range n {
			binary.BigEndian.PutUint64(room[24-8*i:], limb)
		}
		b = bytes.TrimLeft(room[:], "\x00")
	}
	flags := e.flags &^ exactUsed
	if minus {
		flags |= exactNegative
	}
	dst = append(dst, flags)
	if len(b) == 0 {
		exponent, zeros = 0, 0
	}
	dst = appendInt(dst, int64(exponent+zeros))
	return appendBytes(dst, b)
}

const exactNegative = 1 << 7

// oddPart is n without the zero bits at its end, and how many these are.
func oddPart(n [4]uint64) ([4]uint64, int) {
	limbs := 0
	for limbs < 4 && n[limbs] == 0 {
		limbs++
	}
	if limbs == 4 {
		return n, 0
	}
	copy(n[:], n[limbs:])
	clear(n[4-limbs:])
	s := uint(bits.TrailingZeros64(n[0]))
	for i := range 3 {
		n[i] = n[i]>>s | n[i+1]<<(64-s)
	}
	n[3] >>= s
	return n, 64*limbs + int(s)
}

func (e *Exact) decode(d *decoder) {
	flags, exponent, b := d.byte(), d.int(), bytes.TrimLeft(d.bytes(), "\x00")
	*e = Exact{flags: flags & (exactNaN | exactPlusInf | exactMinusInf)}
	if flags&^(exactNaN|exactPlusInf|exactMinusInf|exactNegative) != 0 || len(b) > maxExactBits/8 ||
		exponent < 2*wideExponent || exponent > maxExactBits+wideExponent || len(b) > 0 && b[len(b)-1]&1 == 0 {
		d.fail("sum")
	}
	if d.err != nil || len(b) == 0 {
		return
	}
	length := 8*len(b) - bits.LeadingZeros8(b[0])
	if int(exponent)+length > maxExactBits+wideExponent {
		d.fail("sum")
		return
	}
	e.flags |= exactUsed
	e.base = int32(exponent >> 6)
	s := uint(exponent & 63)
	if length+int(s) <= 254 {
		var x [4]uint64
		for i := range b {
			x[i/8] |= uint64(b[len(b)-1-i]) << (8 * (i % 8))
		}
		for i := 3; i > 0; i-- {
			x[i] = x[i]<<s | x[i-1]>>(64-s)
		}
		x[0] <<= s
		e.addSame(&x, flags&exactNegative != 0)
		return
	}
	if exponent < wideExponent {
		d.fail("sum")
		return
	}
	v := new(big.Int).SetBytes(b)
	if flags&exactNegative != 0 {
		v.Neg(v)
	}
	e.wide = v.Lsh(v, uint(exponent-wideExponent))
}
