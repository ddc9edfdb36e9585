// Where each field of the structs of this library is: the caller compares its mirrors of them.
#pragma once

#include <cstdint>

extern "C" {

struct EgtField {
    const char *name;  // "EgtGraphs.count"; of a whole struct "EgtGraphs"
    int64_t offset;    // in bytes; of a whole struct its size
};

// All fields of all structs; behind them one without a name.
const EgtField *egt_struct_fields(void);
}
