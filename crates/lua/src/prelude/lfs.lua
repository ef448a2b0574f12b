-- What scripts ask of LuaFileSystem, over `lighty.c`: attributes and directories, nothing that
-- changes the disk.
local calls = ...

local error, next, pairs, type = error, next, pairs, type

local kinds = {
    is_file = "file",
    is_dir = "directory",
    is_link = "link",
    is_char = "char device",
    is_block = "block device",
    is_socket = "socket",
    is_fifo = "named pipe",
}
local fields = {
    size = "st_size",
    ino = "st_ino",
    uid = "st_uid",
    gid = "st_gid",
    access = "st_atime",
    modification = "st_mtime",
    change = "st_ctime",
}

local function attributes(path, what)
    local stat = calls.stat(path)
    if not stat then
        return nil, "cannot obtain information from file '" .. path .. "'", 2
    end
    local all = {}
    for name, field in next, fields do
        all[name] = stat[field]
    end
    all.mode = "other"
    for field, kind in next, kinds do
        if stat[field] then
            all.mode = kind
        end
    end
    if type(what) == "string" then
        return all[what]
    end
    if type(what) == "table" then
        for name, value in next, all do
            what[name] = value
        end
        return what
    end
    return all
end

local function dir(path)
    local names = calls.readdir(path)
    if not names then
        error("cannot open " .. path, 2)
    end
    -- LuaFileSystem names these two as well.
    local first = { "..", "." }
    return function()
        local count = #first
        if count > 0 then
            local name = first[count]
            first[count] = nil
            return name
        end
        return names()
    end
end

return function()
    return { attributes = attributes, dir = dir, _VERSION = "tokamak" }
end
