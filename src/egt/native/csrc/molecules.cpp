// RDKit's binary form of molecules -> numbers. egt/data/molecule_binary.py describes the form. Whoever calls keeps
// 520 bytes behind the last molecule: no atom, bond or ring takes more, so every look stays inside the data.
#include <algorithm>

#include "loops.h"
#include "status.h"

namespace {

constexpr int64_t kMajor = 16, kFirstMinor = 2, kLastMinor = 4;
constexpr int64_t kMostAtoms = 254;  // molecules of up to this many atoms number them in one byte
constexpr int64_t kHeader = 29;
constexpr int kBeginAtoms = 1, kBeginBonds = 11, kBeginRings = 66;
constexpr int64_t kSp3 = 4, kSingle = 1;
constexpr int kAtomFields = 9, kBondFields = 5;

int64_t number_at(const uint8_t *data) {
    return data[0] + (int64_t{data[1]} << 8) + (int64_t{data[2]} << 16) + (int64_t{data[3]} << 24);
}

// A molecule, and where its rows are. A function that fills them returns where it ended; null for what it does not know.
struct Molecule {
    const uint8_t *end;
    int64_t num_atoms, num_bonds;
    int64_t *atoms, *bonds;

    // All but rings and bonds.
    const uint8_t *read_atoms(const uint8_t *at) const {
        for (int64_t a = 0; a < num_atoms; ++a) {
            int64_t *row = atoms + a * kAtomFields;
            const int flags = at[1];
            const int64_t fields = number_at(at + 2);
            // A query, a number of a map, a label, a residue.
            if ((flags & ~0x60) != 0 || (fields & ~0x1FE) != 0 || at > end) return nullptr;
            const auto has = [=](int bit) { return (fields >> bit & 1) != 0; };
            row[0] = at[0];
            row[6] = kSp3;
            row[7] = flags >> 6 & 1;
            at += 6;
            if (has(1)) row[3] = static_cast<int8_t>(*at++);
            if (has(2)) row[1] = *at++;
            if (has(3)) row[6] = *at++;
            if (has(4)) row[4] += *at++;
            at += has(5);  // the valence of its bonds
            if (has(6)) {  // what its valence leaves for hydrogens, unless it is in brackets
                if ((flags & 1 << 5) == 0) row[4] += *at;
                ++at;
            }
            if (has(7)) row[5] = *at++;
            at += has(8) * 4;  // its isotope
            row[2] = row[4];
        }
        return at;
    }

    // Fills the bonds, and counts them for the atoms.
    const uint8_t *read_bonds(const uint8_t *at) const {
        for (int64_t b = 0; b < num_bonds; ++b) {
            int64_t *row = bonds + b * kBondFields;
            const int flags = at[2];
            if ((flags & ~0x6E) != 0 || at > end || at[0] >= num_atoms || at[1] >= num_atoms) return nullptr;
            row[0] = at[0];
            row[1] = at[1];
            row[2] = kSingle;
            row[4] = flags >> 5 & 1;
            at += 3;
            if (flags & 1 << 3) row[2] = *at++;
            at += flags >> 2 & 1;  // its direction
            if (flags & 1 << 1) {
                row[3] = at[0];
                at += 2 + at[1];  // the atoms that its stereo refers to
            }
            atoms[row[0] * kAtomFields + 2] += 1;
            atoms[row[1] * kAtomFields + 2] += 1;
        }
        return at;
    }

    // Marks the atoms that are in rings.
    bool read_rings(const uint8_t *at) const {
        const int64_t num_rings = number_at(at);
        at += 4;
        for (int64_t ring = 0; ring < num_rings; ++ring) {
            if (at > end) return false;
            for (int64_t k = 1; k <= at[0]; ++k) {
                if (at[k] >= num_atoms) return false;
                atoms[at[k] * kAtomFields + 8] = 1;
            }
            at += 1 + at[0];
        }
        return at <= end;
    }

    bool read(const uint8_t *at) const {
        if (num_atoms == 0 || *at != kBeginAtoms || (at = read_atoms(at + 1)) == nullptr) return false;
        if (*at != kBeginBonds || (at = read_bonds(at + 1)) == nullptr) return false;
        return *at == kBeginRings && read_rings(at + 1);
    }
};

}  // namespace

int egt_count_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, int64_t *num_atoms,
                        int64_t *num_bonds) {
    return egt::status_of([=]() mutable {
        const uint8_t *molecule = data;
        for (int64_t m = 0; m < num_molecules; molecule = data + ends[m++]) {
            const int64_t minor = number_at(molecule + 12), atoms = number_at(molecule + 20), bonds = number_at(molecule + 24);
            const bool known = number_at(molecule + 8) == kMajor && kFirstMinor <= minor && minor <= kLastMinor;
            // A bond takes three bytes at least: a damaged form does not ask for more memory than it has.
            const bool possible = 0 < atoms && atoms <= kMostAtoms && 3 * bonds <= data + ends[m] - molecule;
            num_atoms[m] = known && possible ? atoms : 0;
            num_bonds[m] = known && possible ? bonds : 0;
        }
    });
}

int egt_read_molecules(int64_t num_molecules, const uint8_t *data, const int64_t *ends, uint8_t *readable,
                       int64_t *num_atoms, int64_t *num_bonds, int64_t *atoms, int64_t *bonds) {
    return egt::status_of([=]() mutable {
        const uint8_t *begin = data;
        for (int64_t m = 0; m < num_molecules; begin = data + ends[m++]) {
            const Molecule molecule{data + ends[m], num_atoms[m], num_bonds[m], atoms, bonds};
            readable[m] = molecule.read(begin + kHeader);
            if (!readable[m]) {
                std::fill_n(atoms, num_atoms[m] * kAtomFields, 0);
                std::fill_n(bonds, num_bonds[m] * kBondFields, 0);
                num_atoms[m] = num_bonds[m] = 0;
            }
            atoms += num_atoms[m] * kAtomFields;
            bonds += num_bonds[m] * kBondFields;
        }
    });
}
